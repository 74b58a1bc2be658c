// Processes that create load: how they are started and queried, and how they reply.
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const PHASE_TIMEOUT_MS = 30_000;

/** @typedef {{ result: unknown, error?: undefined } | { error: string }} Answer */

/** @returns {import('./types.ts').HttpLoad} */
export const startHttpLoad = () => startLoad('./http-load.mjs');

/** @returns {import('./types.ts').RawLoad} */
export const startRawLoad = () => startLoad('./raw-load.mjs');

/**
 * @template Plan, Result
 * @param {string} file
 * @returns {import('./types.ts').Load<Plan, Result>}
 */
function startLoad(file) {
  const child = fork(fileURLToPath(new URL(file, import.meta.url)), { execArgv: [] });
  /** @type {(plan: Plan) => Promise<Result>} */
  const ask = (plan) =>
    new Promise((done, fail) => {
      const timer = setTimeout(
        () => fail(new Error(`${file}: no result within ${PHASE_TIMEOUT_MS} ms`)),
        PHASE_TIMEOUT_MS,
      );
      child.removeAllListeners('message').removeAllListeners('exit');
      child.once('exit', (code) => fail(new Error(`${file} ended with exit code ${code}`)));
      child.once('message', (/** @type {Answer} */ answer) => {
        clearTimeout(timer);
        if (answer.error === undefined) {
          done(/** @type {Result} */ (answer.result));
        } else {
          fail(new Error(answer.error));
        }
      });
      child.send(/** @type {import('node:child_process').Serializable} */ (plan));
    });
  const stop = () => {
    child.removeAllListeners('exit').kill('SIGKILL');
  };
  return { ask, stop };
}

/**
 * In the process itself: runs each plan that arrives, and sends back its result with the CPU seconds that it took.
 * @template Plan
 * @param {(plan: Plan) => Promise<object>} run
 */
export function answerPlans(run) {
  process.on('message', (/** @type {Plan} */ plan) => {
    const before = process.cpuUsage();
    run(plan).then(
      (result) => {
        const { user, system } = process.cpuUsage(before);
        process.send?.({ result: { ...result, cpu_s: (user + system) / 1e6 } });
      },
      (/** @type {Error} */ error) => process.send?.({ error: error.message }),
    );
  });
}
