// A jest reporter that writes the counts for scripts/test.mjs. A test file that could not run counts as one failure. A skipped test has
// the reason in its title or in that of its group: `TLS (skipped: there is no openssl)`.
import { writeFileSync } from 'node:fs';

export default class CountReporter {
  /**
   * @param {unknown} _contexts
   * @param {{
   *   numPassedTests: number,
   *   numFailedTests: number,
   *   numRuntimeErrorTestSuites: number,
   *   testResults: { testResults: { status: string, fullName: string }[] }[],
   * }} results
   */
  onRunComplete(_contexts, results) {
    const file = process.env.HOLDFAST_TEST_COUNTS;
    if (file !== undefined) {
      const failed = results.numFailedTests + results.numRuntimeErrorTestSuites;
      /** @type {Record<string, number>} */
      const skipped = {};
      for (const { status, fullName } of results.testResults.flatMap(({ testResults }) => testResults)) {
        const reason = /\(skipped: (.*?)\)/.exec(fullName)?.[1];
        if (status === 'pending' && reason !== undefined) {
          skipped[reason] = (skipped[reason] ?? 0) + 1;
        }
      }
      writeFileSync(file, JSON.stringify({ passed: results.numPassedTests, failed, skipped }));
    }
  }
}
