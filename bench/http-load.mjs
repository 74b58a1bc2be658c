// The load generator, a separate process. Open loops are made here, because autocannon sends the requests of a second together at its
// beginning.
import { setPriority } from 'node:os';
import { createHistogram } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from './client.mjs';
import { closedLoop, expectSuccess, note, reservationIdIn, summaryOf } from './closed-loop.mjs';
import { answerPlans } from './load.mjs';
import {
  BATCH_PATH,
  commitsText,
  debits,
  extensions,
  expectCommits,
  idsIn,
  lists,
  reservesText,
  saturateBatches,
  sets,
} from './several-load.mjs';
import { httpRequests } from './workload.mjs';

/**
 * @typedef {import('./types.ts').HttpPlan} HttpPlan
 * @typedef {import('./closed-loop.mjs').Request} Request
 */

const DRAIN_TIMEOUT_MS = 5000;
const OPEN_LOOP_CONNECTIONS = 200;

/** @param {import('./types.ts').ClosedPlan} plan */
async function saturate(plan) {
  const { target, first, perRequest } = plan;
  if (perRequest !== undefined) {
    return saturateBatches(plan);
  }
  const texts = httpRequests(target);
  let [next, operations] = [first, 0];
  const result = await closedLoop(
    plan,
    [
      {
        path: texts.reservePath,
        setupRequest: (request, context) => {
          Object.assign(context, { number: next++ });
          return { ...request, body: texts.reserve(numberOf(context)) };
        },
        onResponse: (status, body, context) => {
          expectSuccess(status, body);
          Object.assign(context, { id: reservationIdIn(body) });
        },
      },
      {
        setupRequest: (request, context) => ({
          ...request,
          path: texts.commitPath(String(Reflect.get(context, 'id'))),
          body: texts.commit(numberOf(context)),
        }),
        onResponse: (status, body) => {
          expectSuccess(status, body);
          operations += 1;
        },
      },
    ],
    target,
  );
  return { ...result, operations, per_second: operations / result.elapsed_s, next };
}

/** @param {object} context of an operation */
const numberOf = (context) => Number(Reflect.get(context, 'number'));

/**
 * Reserves that nobody settles, of the targets in turn.
 * @param {import('./types.ts').LeakPlan} plan
 */
async function leak(plan) {
  const texts = plan.targets.map((target) => ({
    ...httpRequests(target, { ttlMs: plan.ttlMs, graceMs: 0 }),
    headers: { 'content-type': 'application/json', 'x-cycles-api-key': target.apiKey },
  }));
  const bySecond = Array.from({ length: plan.seconds }, () => 0);
  const [start, startedAt] = [performance.now(), Date.now()];
  let next = plan.first;
  const result = await closedLoop(
    plan,
    [
      {
        path: texts[0]?.reservePath ?? '',
        setupRequest: (request) => {
          const number = next++;
          const { reserve, headers } = texts[number % texts.length] ?? {};
          return { ...request, ...(headers && { headers }), body: reserve?.(number) ?? '' };
        },
        onResponse: expectSuccess,
      },
    ],
    {
      answered: () => {
        const second = Math.floor((performance.now() - start) / 1000);
        bySecond[second] = (bySecond[second] ?? 0) + 1;
      },
    },
  );
  const operations = result.requests;
  const rate = { operations, per_second: operations / result.elapsed_s, next };
  return { ...result, ...rate, startedAt, bySecond: bySecond.slice(0, plan.seconds) };
}

/**
 * A tenant at full load. In reality this would be another machine. Here the service must not wait for a processor because the attack uses it.
 * @param {import('./types.ts').AttackPlan} plan
 */
function attack(plan) {
  setPriority(10);
  return closedLoop(
    plan,
    plan.requests.map(({ body, ...request }) => ({
      .../** @type {Request} */ (request),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })),
  );
}

/**
 * Operations start at fixed instants whether or not the earlier ones are done. Each gets its instant and is timed from it, so that a stall of
 * the service is seen by every operation that had to wait for it.
 * @param {import('./types.ts').OpenPlan} plan
 * @param {(client: Client, number: number, from: number) => Promise<void>} operate
 */
async function openLoop({ port, rate, seconds, target, first }, operate) {
  const headers = { 'x-cycles-api-key': target.apiKey };
  const client = new Client(port, { connections: OPEN_LOOP_CONNECTIONS, headers });
  const total = Math.floor(rate * seconds);
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
    while (started < total && start + (started * 1000) / rate <= now) {
      const instant = start + (started * 1000) / rate;
      operate(client, first + started, instant).then(end, (/** @type {Error} */ error) => {
        failure ??= error;
      });
      started += 1;
    }
    await delay(1);
  }
  const elapsed_s = (performance.now() - start) / 1000;
  await client.close();
  if (failure !== undefined) {
    throw failure;
  }
  return { operations: total, unfinished: total - finished, elapsed_s, next: first + total };
}

/** @param {import('./types.ts').OpenPlan} plan */
async function pace(plan) {
  if (plan.perRequest !== undefined) {
    return paceBatches(plan, plan.perRequest);
  }
  const texts = httpRequests(plan.target);
  const latencies = createHistogram();
  const result = await openLoop(plan, async (client, number, from) => {
    const reserved = await client.ask('POST', texts.reservePath, texts.reserve(number));
    expectSuccess(reserved.status, reserved.text);
    const between = performance.now();
    note(latencies, between - from);
    const path = texts.commitPath(reservationIdIn(reserved.text));
    const { status, text } = await client.ask('POST', path, texts.commit(number));
    expectSuccess(status, text);
    note(latencies, performance.now() - between);
  });
  expectFinished(result);
  return { ...result, per_second: result.operations / result.elapsed_s, ...summaryOf(latencies) };
}

/** @param {{ unfinished: number }} result */
function expectFinished({ unfinished }) {
  if (unfinished > 0) {
    throw new Error(`${unfinished} operations were not done ${DRAIN_TIMEOUT_MS} ms after the end`);
  }
}

/**
 * The same operations a second, so many in a batch.
 * @param {import('./types.ts').OpenPlan} plan
 * @param {number} perRequest
 */
async function paceBatches(plan, perRequest) {
  const texts = httpRequests(plan.target);
  const latencies = createHistogram();
  const result = await openLoop({ ...plan, rate: plan.rate / perRequest }, async (client, number, from) => {
    const first = plan.first + (number - plan.first) * perRequest;
    const reserved = await client.ask('POST', BATCH_PATH, reservesText(texts, first, perRequest));
    const ids = idsIn(reserved.status, reserved.text, perRequest);
    const between = performance.now();
    note(latencies, between - from);
    const { status, text } = await client.ask('POST', BATCH_PATH, commitsText(texts, first, ids));
    expectCommits(status, text, perRequest);
    note(latencies, performance.now() - between);
  });
  expectFinished(result);
  const operations = result.operations * perRequest;
  const next = plan.first + operations;
  return { ...result, operations, next, per_second: operations / result.elapsed_s, ...summaryOf(latencies) };
}

/**
 * Reserves alone. A request that fails is counted by its status and does not end the run, and one without a response within the drain time
 * counts as `no answer`.
 * @param {import('./types.ts').OpenPlan} plan
 */
async function watch(plan) {
  const texts = httpRequests(plan.target);
  const latencies = createHistogram();
  /** @type {Record<string, number>} */
  const failures = {};
  const failed = (/** @type {string} */ word, count = 1) => {
    failures[word] = (failures[word] ?? 0) + count;
  };
  const { unfinished, ...result } = await openLoop(plan, async (client, number, from) => {
    try {
      const { status } = await client.ask('POST', texts.reservePath, texts.reserve(number));
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
  return { ...result, ...summaryOf(latencies), failures };
}

const LOADS = { closed: saturate, debits, sets, extensions, lists, leak, attack, paced: pace, watch };

/** @param {HttpPlan} plan */
async function run(plan) {
  const cpu = process.cpuUsage();
  const load = /** @type {(plan: HttpPlan) => Promise<object>} */ (LOADS[plan.kind]);
  const result = await load(plan);
  const { user, system } = process.cpuUsage(cpu);
  return { ...result, cpu_s: (user + system) / 1e6 };
}

answerPlans(run);
