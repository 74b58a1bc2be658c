// The load generator, a separate process. Closed loops are those of autocannon: each connection sends its next request when the last one is
// answered. Open loops are made here, because autocannon sends the requests of a second together at its beginning.
import { setPriority } from 'node:os';
import { createHistogram } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import autocannon from 'autocannon';
import { Client } from './client.mjs';
import { answerPlans } from './load.mjs';
import { httpRequests } from './workload.mjs';

/**
 * @typedef {import('./types.ts').HttpPlan} HttpPlan
 * @typedef {Exclude<import('autocannon').Request['onResponse'], string | undefined>} OnResponse
 * @typedef {Omit<import('autocannon').Request, 'onResponse'> & { onResponse?: OnResponse }} Request
 * @typedef {ReturnType<typeof createHistogram>} Histogram
 */

const DRAIN_TIMEOUT_MS = 5000;
const OPEN_LOOP_CONNECTIONS = 200;
/** How often autocannon looks whether the time is over. */
const SAMPLE_MS = 50;

/** @param {Histogram} latencies @param {number} ms */
const note = (latencies, ms) => latencies.record(Math.max(1, Math.round(ms * 1000)));

/** @param {Histogram} latencies in µs */
const summaryOf = (latencies) => ({
  requests: latencies.count,
  p50_ms: latencies.percentile(50) / 1000,
  p99_ms: latencies.percentile(99) / 1000,
  max_ms: latencies.max / 1000,
});

/** @param {string} body */
function reservationIdIn(body) {
  const at = body.indexOf('"reservation_id":"') + 18;
  return body.slice(at, at + 22);
}

/** @param {number} status @param {string} body */
function expectSuccess(status, body) {
  if (status !== 200) {
    throw new Error(`got ${status} ${body}`);
  }
}

/**
 * @param {{ port: number, connections: number, seconds: number }} plan
 * @param {Request[]} requests that each connection sends in turn
 * @param {{ apiKey?: string, answered?: () => void }} [how]
 */
async function closedLoop({ port, connections, seconds }, requests, { apiKey, answered } = {}) {
  const latencies = createHistogram();
  const key = apiKey === undefined ? {} : { 'x-cycles-api-key': apiKey };
  const start = performance.now();
  /** @type {Error | undefined} */
  let failure;
  /** @type {import('autocannon').Result} */
  const { errors, statusCodeStats = {} } = await new Promise((done, fail) => {
    /** @type {import('autocannon').Options & { sampleInt: number }} */
    const options = {
      url: `http://127.0.0.1:${port}`,
      connections,
      duration: seconds,
      timeout: 30,
      sampleInt: SAMPLE_MS,
      requests: requests.map(({ onResponse, ...request }) => ({
        method: 'POST',
        ...request,
        headers: { 'content-type': 'application/json', ...key, ...request.headers },
        // What a listener throws is lost in autocannon's parser.
        onResponse: (/** @type {Parameters<OnResponse>} */ ...response) => {
          try {
            onResponse?.(...response);
          } catch (error) {
            failure ??= /** @type {Error} */ (error);
            running.stop?.();
          }
        },
      })),
    };
    const running = autocannon(options, (error, result) => {
      if (error instanceof Error) {
        fail(error);
      } else {
        done(result);
      }
    });
    running.on('response', (_client, _status, _bytes, ms) => {
      note(latencies, ms);
      answered?.();
    });
  });
  if (failure !== undefined) {
    throw failure;
  }
  if (errors > 0) {
    throw new Error(`${errors} requests failed or were not answered in time`);
  }
  const elapsed_s = (performance.now() - start) / 1000;
  const statuses = Object.fromEntries(
    Object.entries(statusCodeStats).map(([status, { count = 0 }]) => [status, count]),
  );
  return { elapsed_s, statuses, ...summaryOf(latencies) };
}

/** @param {import('./types.ts').ClosedPlan} plan */
async function saturate(plan) {
  const { target, first } = plan;
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
  if (result.unfinished > 0) {
    throw new Error(`${result.unfinished} operations were not done ${DRAIN_TIMEOUT_MS} ms after the end`);
  }
  return { ...result, per_second: result.operations / result.elapsed_s, ...summaryOf(latencies) };
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

const LOADS = { closed: saturate, leak, attack, paced: pace, watch };

/** @param {HttpPlan} plan */
async function run(plan) {
  const cpu = process.cpuUsage();
  const load = /** @type {(plan: HttpPlan) => Promise<object>} */ (LOADS[plan.kind]);
  const result = await load(plan);
  const { user, system } = process.cpuUsage(cpu);
  return { ...result, cpu_s: (user + system) / 1e6 };
}

answerPlans(run);
