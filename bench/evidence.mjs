// What evidence costs a reserve and its commit: two services of this checkout, one with evidence, are under
// load in turn.
import { compare, tableOfCompared } from './against.mjs';
import { unlessShort } from './duration.mjs';

/** Nobody calls it, because the load does not read envelopes. */
const SERVER_ID = 'http://127.0.0.1/v1';
const PLAN = {
  rounds: unlessShort(7, 1),
  seconds: unlessShort(3, 1),
  rows: ['commit'],
  connections: [200],
  redis: ['embedded'],
};

/** @returns {Promise<import('./types.ts').Measured>} */
export async function measure() {
  const compared = await compare({ settings: { EVIDENCE_SERVER_ID: SERVER_ID } }, {}, PLAN);
  return {
    title: 'Evidence',
    command: 'npm run bench -- evidence',
    subject: `Reserve and commit, three budgeted scopes, in turn: \`without → with evidence\`. Medians of ${PLAN.rounds * PLAN.seconds} seconds each, and of the ratios of one second beside the next.`,
    store: 'processor time is that of both requests',
    tables: [tableOfCompared(compared)],
    figures: [],
  };
}
