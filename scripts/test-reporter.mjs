// A jest reporter that writes the counts for scripts/test.mjs, and says how far the run is. A test file that could not run counts as one
// failure. A skipped test has the reason in its title or in that of its group: `TLS (skipped: there is no openssl)`.
import { writeFileSync } from 'node:fs';
import LongestFirst from '../test/support/jest/sequencer.mjs';

const SAY_EVERY_MS = 10_000;

/**
 * The time that is left, if the rest is as much slower or faster than expected as what is done.
 * @param {{ done: number, left: number, workers: number, elapsedMs: number }} about  done, left: expected ms of files that have ended, and of the others
 */
export function msLeft({ done, left, workers, elapsedMs }) {
  const pace = done === 0 ? 1 : (elapsedMs * workers) / done;
  return (left * pace) / workers;
}

/** @param {number} ms */
const inWords = (ms) => (ms < 90_000 ? `${Math.ceil(ms / 1000)} s` : `${Math.round(ms / 60_000)} min`);

export default class TestReporter {
  startedAt = 0;
  saidAt = 0;
  done = 0;
  left = 0;

  /** @param {{ maxWorkers: number }} config */
  constructor({ maxWorkers }) {
    this.workers = maxWorkers;
  }

  /** @param {{ numTotalTestSuites: number }} results */
  onRunStart({ numTotalTestSuites: files }) {
    this.startedAt = performance.now();
    this.left = LongestFirst.planned.reduce((sum, test) => sum + LongestFirst.expectedMs(test), 0);
    this.workers = Math.min(this.workers, files);
    this.say(`${files} test files`);
  }

  /**
   * @param {Parameters<typeof LongestFirst.expectedMs>[0]} test
   * @param {unknown} _result
   * @param {{ numTotalTestSuites: number, numPassedTestSuites: number, numFailedTestSuites: number, numPendingTestSuites: number }} results
   */
  onTestResult(test, _result, results) {
    const expectedMs = LongestFirst.expectedMs(test);
    this.done += expectedMs;
    this.left -= expectedMs;
    if (performance.now() - this.saidAt >= SAY_EVERY_MS) {
      const ended = results.numPassedTestSuites + results.numFailedTestSuites + results.numPendingTestSuites;
      this.say(`${ended} of ${results.numTotalTestSuites} test files have ended`);
    }
  }

  /** @param {string} text */
  say(text) {
    this.saidAt = performance.now();
    const { done, left, workers } = this;
    const ms = msLeft({ done, left, workers, elapsedMs: this.saidAt - this.startedAt });
    process.stderr.write(`${text}, about ${inWords(ms)} left\n`);
  }

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
