// npm run play: plays the service in one process, one command at a time, with faults in between; see
// docs/testing.md. `--steps=<n>` sets the number of steps (100,000), `--seed=<n>` repeats a play.
// Exit codes: 0 no difference; 1 a difference, whose seed is printed.
import { runTestFile } from './run-test-file.mjs';

runTestFile({
  command: 'npm run play',
  file: 'test/property/world.test.ts',
  seedVariable: 'PLAY_SEED',
  option: /^--steps=\d+$/,
  settings: (steps = '--steps=100000') => ({ PLAY_STEPS: steps.slice('--steps='.length) }),
});
