// The load generator, a separate process. It shares the machine with the service, so it saves CPU: raw sockets, prebuilt requests, and
// a minimal HTTP/1.1 parser.
import { Latencies, open } from './http-connection.mjs';
import { answerPlans } from './load.mjs';
import { httpRequests } from './workload.mjs';

/**
 * @typedef {import('./types.ts').ClosedPlan} ClosedPlan
 * @typedef {import('./types.ts').PacedPlan} PacedPlan
 * @typedef {import('./types.ts').WatchPlan} WatchPlan
 * @typedef {ReturnType<typeof httpRequests>} Requests
 * @typedef {import('./http-connection.mjs').Connection} Connection
 * @typedef {import('./http-connection.mjs').Fail} Fail
 */

const DRAIN_TIMEOUT_MS = 5000;
const PACED_CONNECTIONS = 200;

/**
 * One operation: a reserve, then its commit.
 * @param {Connection} connection
 * @param {Requests} requests
 * @param {number} number
 * @param {number} from when it should have started
 * @param {Latencies} latencies
 * @param {() => void} done
 * @param {Fail} fail
 */
function operate(connection, requests, number, from, latencies, done, fail) {
  connection.send(
    requests.reserve(number),
    (body) => {
      const reserved = performance.now();
      latencies.add(reserved - from);
      const at = body.indexOf('"reservation_id":"') + 18;
      const commit = requests.commit(number, body.slice(at, at + 22));
      connection.send(
        commit,
        () => {
          latencies.add(performance.now() - reserved);
          done();
        },
        fail,
      );
    },
    fail,
  );
}

/**
 * Closed loop: every connection starts its next operation when the last one is done.
 * @param {ClosedPlan} plan
 */
async function saturate({ port, connections, seconds, target, first }) {
  const requests = httpRequests(target);
  const all = await open(port, connections);
  const latencies = new Latencies();
  const start = performance.now();
  const deadline = start + seconds * 1000;
  let [number, operations] = [first, 0];
  await Promise.all(
    all.map(
      (connection) =>
        new Promise((/** @type {(value?: undefined) => void} */ done, fail) => {
          const next = () => {
            const now = performance.now();
            if (now >= deadline) {
              connection.fail = undefined;
              done();
              return;
            }
            operate(
              connection,
              requests,
              number++,
              now,
              latencies,
              () => {
                operations += 1;
                next();
              },
              fail,
            );
          };
          next();
        }),
    ),
  );
  const elapsed_s = (performance.now() - start) / 1000;
  all.forEach(({ socket }) => socket.destroy());
  return { operations, elapsed_s, per_second: operations / elapsed_s, ...latencies.summary(), next: number };
}

/**
 * Open loop: operations start at fixed instants whether or not the earlier ones are done, and each is timed from its
 * instant, so that a stall of the service is seen by every operation that had to wait for it.
 * @param {PacedPlan} plan
 */
async function pace({ port, rate, seconds, target, first }) {
  const requests = httpRequests(target);
  const free = await open(port, PACED_CONNECTIONS);
  const all = [...free];
  const latencies = new Latencies();
  const total = Math.floor(rate * seconds);
  const start = performance.now();
  let [started, finished] = [0, 0];
  /** @type {Error | undefined} */
  let failure;
  const isOver = () => finished >= total || failure !== undefined;
  while (!isOver()) {
    const now = performance.now();
    if (now > start + seconds * 1000 + DRAIN_TIMEOUT_MS) {
      throw new Error(
        `${total - finished} of ${total} operations were not done ${DRAIN_TIMEOUT_MS} ms after the end`,
      );
    }
    while (started < total && start + (started * 1000) / rate <= now) {
      const connection = free.pop();
      if (connection === undefined) {
        break;
      }
      operate(
        connection,
        requests,
        first + started,
        start + (started * 1000) / rate,
        latencies,
        () => {
          finished += 1;
          free.push(connection);
        },
        (error) => {
          failure = error;
        },
      );
      started += 1;
    }
    await new Promise((done) => setTimeout(done, 1));
  }
  const elapsed_s = (performance.now() - start) / 1000;
  all.forEach((connection) => {
    connection.fail = undefined;
    connection.socket.destroy();
  });
  throwIf(failure);
  return {
    operations: finished,
    elapsed_s,
    per_second: finished / elapsed_s,
    ...latencies.summary(),
    next: first + total,
  };
}

/** @param {Error | undefined} failure */
function throwIf(failure) {
  if (failure !== undefined) {
    throw failure;
  }
}

/**
 * Reserves alone, started at fixed instants as in `pace`. A request that fails is counted by its status and does not end the run,
 * and one without a response within the drain time counts as `no answer`.
 * @param {WatchPlan} plan
 */
async function watch({ port, rate, seconds, target, first }) {
  const requests = httpRequests(target);
  const connections = await open(port, PACED_CONNECTIONS);
  const free = [...connections];
  const latencies = new Latencies();
  /** @type {Record<string, number>} */
  const failures = {};
  const total = Math.floor(rate * seconds);
  const start = performance.now();
  let [started, finished] = [0, 0];
  const failed = (/** @type {string} */ word) => {
    finished += 1;
    failures[word] = (failures[word] ?? 0) + 1;
  };
  /** @type {(connection: Connection, number: number, from: number) => void} */
  const reserve = (connection, number, from) => {
    const answered = () => {
      latencies.add(performance.now() - from);
      free.push(connection);
    };
    const succeed = () => {
      finished += 1;
      answered();
    };
    connection.send(requests.reserve(number), succeed, (error) => {
      failed(/^got (\d+)/.exec(error.message)?.[1] ?? error.message);
      if (!connection.socket.destroyed) {
        answered();
      }
    });
  };
  while (finished < total && performance.now() < start + seconds * 1000 + DRAIN_TIMEOUT_MS) {
    const now = performance.now();
    while (started < total && start + (started * 1000) / rate <= now) {
      const connection = free.pop();
      if (connection === undefined) {
        break;
      }
      reserve(connection, first + started, start + (started * 1000) / rate);
      started += 1;
    }
    await new Promise((done) => setTimeout(done, 1));
  }
  const elapsed_s = (performance.now() - start) / 1000;
  for (const connection of connections) {
    connection.fail = undefined;
    connection.socket.destroy();
  }
  while (finished < total) {
    failed('no answer');
  }
  return { operations: total, elapsed_s, ...latencies.summary(), failures, next: first + total };
}

/** @param {ClosedPlan | PacedPlan | WatchPlan} plan */
function load(plan) {
  switch (plan.kind) {
    case 'closed':
      return saturate(plan);
    case 'paced':
      return pace(plan);
    case 'watch':
      return watch(plan);
  }
}

/** @param {ClosedPlan | PacedPlan | WatchPlan} plan */
async function run(plan) {
  const cpu = process.cpuUsage();
  const result = await load(plan);
  const { user, system } = process.cpuUsage(cpu);
  return { ...result, cpu_s: (user + system) / 1e6 };
}

answerPlans(run);
