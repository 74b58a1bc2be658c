import { join } from 'node:path';
import { readJson } from './scripts/install.mjs';
import { SWC_OPTIONS } from './test/support/jest/typescript.mjs';

/** @typedef {{ suites: string[], aboutOneServer: { file: string, test?: string }[] }} Topologies */

/** With TEST_TOPOLOGY the suites that can run on another kind of Redis than one server do so; which these are is in one list. */
function selection() {
  if ((process.env.TEST_TOPOLOGY ?? 'single') === 'single') {
    return { roots: ['<rootDir>/test'] };
  }
  const { suites, aboutOneServer } = /** @type {Topologies} */ (
    readJson(join(import.meta.dirname, 'test/topologies.json'))
  );
  const leftOut = aboutOneServer
    .filter(({ test }) => test === undefined)
    .map(({ file }) => `<rootDir>/${file}$`);
  return {
    roots: suites.map((suite) => `<rootDir>/${suite}`),
    testPathIgnorePatterns: ['/node_modules/', ...leftOut],
  };
}

/**
 * Real Redis in every test: global-setup starts one on free ports for the whole run, and files that need one of their own get it.
 * @type {() => import('jest').Config}
 */
export default () => ({
  testEnvironment: '<rootDir>/test/support/jest/environment.mjs',
  runtime: '<rootDir>/test/support/jest/runtime.mjs',
  // Not in the folder for temporary files, which a run has of its own.
  cacheDirectory: '<rootDir>/node_modules/.cache/jest',
  ...selection(),
  testMatch: ['**/*.test.ts'],
  extensionsToTreatAsEsm: ['.ts'],
  // Only what jest itself loads, the set-up and the teardown of the run.
  transform: { '^.+\\.ts$': ['@swc/jest', SWC_OPTIONS] },
  globalSetup: '<rootDir>/test/support/global-setup.ts',
  globalTeardown: '<rootDir>/test/support/global-teardown.ts',
  // Like every other limit, as long as this on an idle machine; test/support/time-limits.ts measures how idle it is.
  testTimeout: 30000,
  // More than processors: most files wait for Redis, for clocks and for the processes that they start more than they compute.
  maxWorkers: 4,
  testSequencer: '<rootDir>/test/support/jest/sequencer.mjs',
});
