// The raw limit: a separate process that pipelines the same scripts with the same arguments, and does nothing
// else.
import { connect } from 'node:net';
import { once } from 'node:events';
import { answerPlans } from './load.mjs';
import { scriptCalls } from './workload.mjs';

const CONNECTIONS = 4;
const BATCH = 50;

class Pipeline {
  rest = '';
  missing = 0;
  /** The start of the text in each reply that is awaited. */
  success = '';
  /** @type {(() => void) | undefined} */
  done;
  /** @type {((error: Error) => void) | undefined} */
  fail;

  /** @param {import('node:net').Socket} socket */
  constructor(socket) {
    this.socket = socket;
    socket.setEncoding('latin1').on('data', (/** @type {string} */ text) => this.take(text));
    socket.on('error', (error) => this.fail?.(error));
  }

  /**
   * Sends one batch and resolves when all of its replies have arrived.
   * @param {string[]} batch
   * @param {string} word how each reply begins
   * @returns {Promise<void>}
   */
  send(batch, word) {
    // A group of one call has a single text as its reply: a status word, whether it was a replay, and the
    // rest.
    this.success = `${word}\x1ffresh\x1f`;
    this.missing = batch.length;
    /** @type {Promise<void>} */
    const answered = new Promise((done, fail) => {
      this.done = done;
      this.fail = fail;
    });
    this.socket.write(batch.join(''), 'latin1');
    return answered;
  }

  /** @param {string} text */
  take(text) {
    const all = this.rest === '' ? text : this.rest + text;
    let at = 0;
    for (;;) {
      const end = endOfReply(all, at);
      if (end === -1) {
        break;
      }
      const text = all.indexOf('\n', all.indexOf('\n', at) + 1) + 1;
      if (!all.startsWith(this.success, text)) {
        this.fail?.(new Error(`expected a fresh success, got ${JSON.stringify(all.slice(at, end))}`));
        return;
      }
      at = end;
      this.missing -= 1;
    }
    this.rest = all.slice(at);
    if (this.missing === 0) {
      this.done?.();
    }
  }
}

/**
 * The index after the reply that starts at `at`, or -1 if it is incomplete.
 * @param {string} text
 * @param {number} at
 */
function endOfReply(text, at) {
  const first = text.indexOf('\r\n', at);
  if (first === -1) {
    return -1;
  }
  if (text[at] !== '*') {
    return first + 2;
  }
  let position = first + 2;
  for (let left = Number(text.slice(at + 1, first)); left > 0; left -= 1) {
    const lengthEnd = text.indexOf('\r\n', position);
    if (lengthEnd === -1) {
      return -1;
    }
    position = lengthEnd + 2 + Number(text.slice(position + 1, lengthEnd)) + 2;
  }
  return position <= text.length ? position : -1;
}

/** @param {string} socketPath */
async function open(socketPath) {
  return Promise.all(
    Array.from({ length: CONNECTIONS }, async () => {
      const socket = connect(socketPath);
      await once(socket, 'connect');
      return new Pipeline(socket);
    }),
  );
}

/**
 * kind `reserve` or `commit`: exactly `count` calls of one script. kind `pairs`: both in turn for `seconds`.
 * Numbers start at `first`; a commit settles the reserve of the same number.
 * @param {import('./types.ts').RawPlan} plan
 */
async function run({ kind, target, socketPath, count, seconds, first }) {
  const calls = scriptCalls(target);
  const pipelines = await open(socketPath);
  const cpu = process.cpuUsage();
  const start = performance.now();
  const deadline = start + (seconds ?? 60) * 1000;
  let [next, operations] = [first, 0];
  const worker = async (/** @type {Pipeline} */ pipeline) => {
    while (performance.now() < deadline && (count === undefined || next < first + count)) {
      const numbers = Array.from({ length: BATCH }, (_, index) => next + index);
      next += BATCH;
      if (kind !== 'commit') {
        await pipeline.send(numbers.map(calls.reserve), 'ALLOW');
      }
      if (kind !== 'reserve') {
        await pipeline.send(numbers.map(calls.commit), 'COMMITTED');
      }
      operations += BATCH;
    }
  };
  await Promise.all(pipelines.map(worker));
  const elapsed_s = (performance.now() - start) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  pipelines.forEach(({ socket }) => socket.destroy());
  return { operations, elapsed_s, per_second: operations / elapsed_s, cpu_s: (user + system) / 1e6, next };
}

answerPlans(run);
