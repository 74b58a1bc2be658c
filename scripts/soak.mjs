// npm run soak: load, kills, failovers and rollovers in turn on a cluster, with an account of every response
// after each; see docs/testing.md. `--minutes=<n>` sets the duration (5), `--seed=<n>` repeats the
// choices of a run. Exit codes: 0 all is accounted for; 1 something is not.
import { runTestFile } from './run-test-file.mjs';

runTestFile({
  command: 'npm run soak',
  file: 'test/fault/soak.test.ts',
  seedVariable: 'SOAK_SEED',
  option: /^--minutes=\d+$/,
  settings: (minutes = '--minutes=5') => ({ SOAK_MINUTES: minutes.slice('--minutes='.length) }),
});
