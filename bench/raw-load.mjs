// The raw limit: a separate process that pipelines the same scripts with the same arguments, and does nothing
// else.
import { Redis } from 'ioredis';
import { answerPlans } from './load.mjs';
import { commitCall, fcallOf, reserveCall, tagOfTenant } from './workload.mjs';

const CONNECTIONS = 4;
const BATCH = 50;

/**
 * Sends one batch and resolves when all of its replies have arrived.
 * @param {Redis} redis
 * @param {ReturnType<typeof fcallOf>[]} calls
 * @param {string} word how each reply begins
 */
async function send(redis, calls, word) {
  const pipeline = redis.pipeline();
  for (const call of calls) {
    pipeline.fcall(...call);
  }
  // A run of one call has a single text as its reply: a status word, whether it was a replay, and the rest.
  const success = `${word}\x1ffresh\x1f`;
  for (const [error, reply] of (await pipeline.exec()) ?? []) {
    const [text = ''] = /** @type {string[]} */ (reply ?? []);
    if (error !== null || !text.startsWith(success)) {
      throw error ?? new Error(`expected a fresh success, got ${JSON.stringify(reply)}`);
    }
  }
}

/**
 * kind `reserve` or `commit`: exactly `count` calls of one script. kind `pairs`: both in turn for `seconds`.
 * Numbers start at `first`; a commit settles the reserve of the same number.
 * @param {import('./types.ts').RawPlan} plan
 */
async function run({ kind, target, socketPath, count, seconds = 60, first }) {
  const place = { ...target, tag: tagOfTenant(target.tenant) };
  const connections = Array.from({ length: CONNECTIONS }, () => new Redis({ path: socketPath }));
  await Promise.all(connections.map((redis) => redis.ping()));
  const start = performance.now();
  let [next, operations] = [first, 0];
  const worker = async (/** @type {Redis} */ redis) => {
    while (performance.now() < start + seconds * 1000 && (count === undefined || next < first + count)) {
      const numbers = Array.from({ length: BATCH }, (_, index) => next + index);
      next += BATCH;
      if (kind !== 'commit') {
        const calls = numbers.map((number) => fcallOf('reserve', reserveCall(place, number)));
        await send(redis, calls, 'ALLOW');
      }
      if (kind !== 'reserve') {
        const calls = numbers.map((number) => fcallOf('commit', commitCall(place, number)));
        await send(redis, calls, 'COMMITTED');
      }
      operations += BATCH;
    }
  };
  await Promise.all(connections.map(worker));
  const elapsed_s = (performance.now() - start) / 1000;
  await Promise.all(connections.map((redis) => redis.quit()));
  return { operations, elapsed_s, per_second: operations / elapsed_s, next };
}

answerPlans(run);
