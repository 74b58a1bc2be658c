// What evidence costs a reserve and its commit: two services of this checkout, one with evidence, are under
// load in turn.
import { comparisonOf, measurePairs } from './reserve-pairs.mjs';

/** Nobody calls it, because the load does not read envelopes. */
const SERVER_ID = 'http://127.0.0.1/v1';

/** @returns {Promise<import('./types.ts').Measured>} */
export async function measure() {
  const { pairs, store } = await measurePairs({
    ours: { settings: { EVIDENCE_SERVER_ID: SERVER_ID } },
    theirs: {},
  });
  return {
    title: 'Evidence',
    command: 'npm run bench -- evidence',
    subject:
      'Reserve and commit, three budgeted scopes, with evidence against without, in turn. One operation is both.',
    store,
    ...comparisonOf('evidence', ['with evidence', 'without'], pairs),
  };
}
