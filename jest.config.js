import { join } from 'node:path';
import { readJson } from './scripts/install.mjs';
import { bundlePackages } from './test/support/bundled-packages.mjs';

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
 * @type {() => Promise<import('jest').Config>}
 */
export default async () => ({
  testEnvironment: '<rootDir>/test/support/environment.mjs',
  // Not in the folder for temporary files, which a run has of its own.
  cacheDirectory: '<rootDir>/node_modules/.cache/jest',
  ...selection(),
  testMatch: ['**/*.test.ts'],
  extensionsToTreatAsEsm: ['.ts'],
  moduleNameMapper: { '^(\\.{1,2}/.*)\\.js$': '$1', ...(await bundlePackages()) },
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      {
        jsc: {
          parser: { syntax: 'typescript', decorators: true },
          transform: { legacyDecorator: true, decoratorMetadata: true, useDefineForClassFields: false },
          target: 'es2023',
          keepClassNames: true,
        },
        module: { type: 'es6' },
        sourceMaps: 'inline',
      },
    ],
  },
  globalSetup: '<rootDir>/test/support/global-setup.ts',
  globalTeardown: '<rootDir>/test/support/global-teardown.ts',
  // Like every other limit, as long as this on an idle machine; test/support/time-limits.ts measures how idle it is.
  testTimeout: 30000,
  // More than processors: most files wait for Redis, for clocks and for the processes that they start more than they compute.
  maxWorkers: 4,
  testSequencer: '<rootDir>/test/support/sequencer.mjs',
});
