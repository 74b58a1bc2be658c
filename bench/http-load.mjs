// The load generator, a separate process. Open loops are made here, because autocannon sends the requests of a second together at its
// beginning.
import { createHistogram } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from './client.mjs';
import { attack, debits, extensions, lists, pairOf, saturate, sets } from './closed-loads.mjs';
import { note, summaryOf } from './closed-loop.mjs';
import { answerPlans } from './load.mjs';

/** @typedef {import('./types.ts').OpenPlan} OpenPlan */

const DRAIN_TIMEOUT_MS = 5000;
const OPEN_LOOP_CONNECTIONS = 200;

/**
 * Requests start at fixed instants whether or not the earlier ones are done. Each gets its instant and is timed from it, so that a stall of
 * the service is seen by every one that had to wait for it.
 * @param {OpenPlan} plan
 * @param {number} size of a request, in operations
 * @param {(client: Client, first: number, from: number) => Promise<void>} operate
 */
async function openLoop({ port, rate, seconds, target, first }, size, operate) {
  const headers = { 'x-cycles-api-key': target.apiKey };
  const client = new Client(port, { connections: OPEN_LOOP_CONNECTIONS, headers });
  const [total, intervalMs] = [Math.floor((rate / size) * seconds), (1000 * size) / rate];
  const start = performance.now();
  let [started, finished] = [0, 0];
  /** @type {Error | undefined} */
  let failure;
  const end = () => {
    finished += 1;
  };
  while (finished < total && failure === undefined) {
    const now = performance.now();
    if (now > start + seconds * 1000 + DRAIN_TIMEOUT_MS) {
      break;
    }
    while (started < total && start + started * intervalMs <= now) {
      operate(client, first + started * size, start + started * intervalMs).then(
        end,
        (/** @type {Error} */ error) => {
          failure ??= error;
        },
      );
      started += 1;
    }
    await delay(1);
  }
  const elapsed_s = (performance.now() - start) / 1000;
  await client.close();
  if (failure !== undefined) {
    throw failure;
  }
  const operations = total * size;
  const rates = { operations, per_second: operations / elapsed_s, next: first + operations };
  return { ...rates, unfinished: total - finished, elapsed_s };
}

/**
 * Reserves and their commits.
 * @param {OpenPlan} plan
 */
async function pace(plan) {
  const { size, reserve, idsIn, commit, expectCommits } = pairOf(plan);
  const latencies = createHistogram();
  const { unfinished, ...result } = await openLoop(plan, size, async (client, first, from) => {
    const { path, body } = reserve(first);
    const reserved = await client.ask('POST', path, body);
    const end = commit(first, idsIn(reserved.status, reserved.text));
    const between = performance.now();
    note(latencies, between - from);
    const { status, text } = await client.ask('POST', end.path, end.body);
    expectCommits(status, text);
    note(latencies, performance.now() - between);
  });
  if (unfinished > 0) {
    throw new Error(`${unfinished} operations were not done ${DRAIN_TIMEOUT_MS} ms after the end`);
  }
  return { ...result, ...summaryOf(latencies) };
}

/**
 * Reserves alone. A request that fails is counted by its status and does not end the run, and one without a response within the drain time
 * counts as `no answer`.
 * @param {OpenPlan} plan
 */
async function watch(plan) {
  const { reserve } = pairOf(plan);
  const latencies = createHistogram();
  /** @type {Record<string, number>} */
  const outcomes = {};
  const failed = (/** @type {string} */ word, count = 1) => {
    outcomes[word] = (outcomes[word] ?? 0) + count;
  };
  const { unfinished, ...result } = await openLoop(plan, 1, async (client, number, from) => {
    try {
      const { path, body } = reserve(number);
      const { status } = await client.ask('POST', path, body);
      note(latencies, performance.now() - from);
      if (status !== 200) {
        failed(String(status));
      }
    } catch (error) {
      // What closing the client ends is counted as not answered.
      if (!client.isClosed) {
        failed(/** @type {Error} */ (error).message);
      }
    }
  });
  if (unfinished > 0) {
    failed('no answer', unfinished);
  }
  return { ...result, ...summaryOf(latencies), outcomes };
}

const LOADS = { closed: saturate, debits, sets, extensions, lists, attack, paced: pace, watch };

answerPlans(async (/** @type {import('./types.ts').HttpPlan} */ plan) => {
  const load = /** @type {(plan: unknown) => Promise<object>} */ (LOADS[plan.kind]);
  return load(plan);
});
