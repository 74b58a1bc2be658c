// A jest reporter that writes the counts for scripts/test.mjs. A test file that could not run counts as one failure.
import { writeFileSync } from 'node:fs';

export default class CountReporter {
  /**
   * @param {unknown} _contexts
   * @param {{ numPassedTests: number, numFailedTests: number, numRuntimeErrorTestSuites: number }} results
   */
  onRunComplete(_contexts, results) {
    const file = process.env.HOLDFAST_TEST_COUNTS;
    if (file !== undefined) {
      const failed = results.numFailedTests + results.numRuntimeErrorTestSuites;
      writeFileSync(file, JSON.stringify({ passed: results.numPassedTests, failed }));
    }
  }
}
