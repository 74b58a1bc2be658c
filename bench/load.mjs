// Processes that create load: how they are started and queried, and how they reply.
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const PHASE_TIMEOUT_MS = 30_000;

/** @typedef {{ result: unknown, error?: undefined } | { error: string }} Answer */

/** @returns {import('./types.ts').HttpLoad} */
export const startHttpLoad = () => startLoad('./http-load.mjs', PHASE_TIMEOUT_MS);

/** @returns {import('./types.ts').WatchLoad} */
export const startWatchLoad = () => startLoad('./http-load.mjs', PHASE_TIMEOUT_MS);

/** @returns {import('./types.ts').LeakLoad} */
export const startLeakLoad = () => startLoad('./leak-load.mjs', PHASE_TIMEOUT_MS);

/** @returns {import('./types.ts').RawLoad} */
export const startRawLoad = () => startLoad('./raw-load.mjs', PHASE_TIMEOUT_MS);

/**
 * @param {number} timeoutMs
 * @returns {import('./types.ts').AttackLoad}
 */
export const startAttack = (timeoutMs) => startLoad('./isolation-attack.mjs', timeoutMs);

/**
 * @template Plan, Result
 * @param {string} file
 * @param {number} timeoutMs
 * @returns {import('./types.ts').Load<Plan, Result>}
 */
function startLoad(file, timeoutMs) {
  const child = fork(fileURLToPath(new URL(file, import.meta.url)), { execArgv: [] });
  /** @type {(plan: Plan) => Promise<Result>} */
  const ask = (plan) =>
    new Promise((done, fail) => {
      const timer = setTimeout(() => fail(new Error(`${file}: no result within ${timeoutMs} ms`)), timeoutMs);
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
 * In the process itself: runs each plan that arrives, and sends back its result.
 * @template Plan
 * @param {(plan: Plan) => Promise<unknown>} run
 */
export function answerPlans(run) {
  process.on('message', (/** @type {Plan} */ plan) => {
    run(plan).then(
      (result) => process.send?.({ result }),
      (/** @type {Error} */ error) => process.send?.({ error: error.message }),
    );
  });
}
