// npm run history: clients of two instances under kills and failovers, and a search for the order that
// explains what they got; see docs/testing.md. `--rounds=<n>` sets the number of rounds (3),
// `--seed=<n>` repeats the choices of a run.
// Exit codes: 0 an order was found for each round; 1 none for one of them.
import { runTestFile } from './run-test-file.mjs';

runTestFile({
  command: 'npm run history',
  file: 'test/fault/histories.test.ts',
  seedVariable: 'HISTORY_SEED',
  option: /^--rounds=\d+$/,
  settings: (rounds = '--rounds=3') => ({ HISTORY_ROUNDS: rounds.slice('--rounds='.length) }),
});
