// npm run spec: random walks through spec/ledger.qnt, checked by the simulator of Quint and repeated against the scripts; see
// docs/testing.md. `--long` takes ten times as many, `--seed=<n>` repeats a run.
// Exit codes: 0 the scripts do what the specification says; 1 they do not.
import { runTestFile } from './run-test-file.mjs';

runTestFile({
  command: 'npm run spec',
  file: 'test/property/spec.test.ts',
  seedVariable: 'SPEC_SEED',
  option: /^--long$/,
  settings: (long) => ({ SPEC_WALKS: long === undefined ? '1000' : '10000' }),
});
