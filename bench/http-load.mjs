// The load generator: a process of its own, since it shares the machine. Raw sockets, prebuilt requests, and as much of an
// HTTP/1.1 parser as Holdfast's answers need, so that it takes as little of the processors as it can.
import { connect } from 'node:net';
import { once } from 'node:events';
import { httpRequests } from './workload.mjs';

const DRAIN_TIMEOUT_MS = 5000;
const PACED_CONNECTIONS = 200;

class Latencies {
  values = new Float64Array(1 << 20);
  count = 0;

  add(ms) {
    this.values[this.count % this.values.length] = ms;
    this.count += 1;
  }

  summary() {
    const sorted = this.values.slice(0, Math.min(this.count, this.values.length)).sort();
    const at = (share) => sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * share) - 1)];
    return { requests: this.count, p50_ms: at(0.5), p99_ms: at(0.99), max_ms: at(1) };
  }
}

/** A keep-alive connection with at most one request under way. */
class Connection {
  rest = '';

  constructor(socket) {
    this.socket = socket.setNoDelay(true).setEncoding('latin1');
    socket.on('data', (text) => this.take(text));
    socket.on('error', (error) => this.fail?.(error));
    socket.on('close', () => this.fail?.(new Error('the service closed a connection')));
  }

  /** `then(body)` runs when the answer is complete; `fail(error)` on any status but 200. */
  send(text, then, fail) {
    this.then = then;
    this.fail = fail;
    this.socket.write(text, 'latin1');
  }

  take(text) {
    const all = this.rest === '' ? text : this.rest + text;
    const headEnd = all.indexOf('\r\n\r\n');
    const lengthAt = all.indexOf('content-length: ');
    const bodyEnd = headEnd + 4 + Number.parseInt(all.slice(lengthAt + 16, lengthAt + 26), 10);
    if (headEnd === -1 || lengthAt === -1 || all.length < bodyEnd) {
      this.rest = all;
      return;
    }
    this.rest = '';
    if (all.startsWith('200', 9)) {
      this.then(all.slice(headEnd + 4, bodyEnd));
    } else {
      this.fail(new Error(`got ${all.slice(9, 12)} ${all.slice(headEnd + 4, bodyEnd)}`));
    }
  }
}

async function open(port, connections) {
  return Promise.all(
    Array.from({ length: connections }, async () => {
      const socket = connect(port, '127.0.0.1');
      await once(socket, 'connect');
      return new Connection(socket);
    }),
  );
}

/** One operation: reserve, then commit what was held. `from` is when it should have started. */
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

/** Closed loop: every connection starts its next operation when the last one is done. */
async function saturate({ port, connections, seconds, target, first }) {
  const requests = httpRequests(target);
  const open_ = await open(port, connections);
  const latencies = new Latencies();
  const start = performance.now();
  const deadline = start + seconds * 1000;
  let [number, operations] = [first, 0];
  await Promise.all(
    open_.map(
      (connection) =>
        new Promise((done, fail) => {
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
  open_.forEach(({ socket }) => socket.destroy());
  return { operations, elapsed_s, per_second: operations / elapsed_s, ...latencies.summary(), next: number };
}

/**
 * Open loop: operations start at fixed instants whether or not the earlier ones are done, and each is timed from its
 * instant, so that a stall of the service is seen by every operation that had to wait for it.
 */
async function pace({ port, rate, seconds, target, first }) {
  const requests = httpRequests(target);
  const free = await open(port, PACED_CONNECTIONS);
  const all = [...free];
  const latencies = new Latencies();
  const total = Math.floor(rate * seconds);
  const start = performance.now();
  let [started, finished, failure] = [0, 0, undefined];
  while (finished < total && failure === undefined) {
    const now = performance.now();
    if (now > start + seconds * 1000 + DRAIN_TIMEOUT_MS) {
      throw new Error(
        `${total - finished} of ${total} operations were not done ${DRAIN_TIMEOUT_MS} ms after the end`,
      );
    }
    while (started < total && free.length > 0 && start + (started * 1000) / rate <= now) {
      const connection = free.pop();
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
  if (failure !== undefined) {
    throw failure;
  }
  return {
    operations: finished,
    elapsed_s,
    per_second: finished / elapsed_s,
    ...latencies.summary(),
    next: first + total,
  };
}

/**
 * Reserves alone, started at fixed instants as in `pace`. A request that fails is counted by its status and does not end the run,
 * and one whose answer does not come within the drain time counts as `no answer`.
 */
async function watch({ port, rate, seconds, target, first }) {
  const requests = httpRequests(target);
  const connections = await open(port, PACED_CONNECTIONS);
  const free = [...connections];
  const latencies = new Latencies();
  const failures = {};
  const total = Math.floor(rate * seconds);
  const start = performance.now();
  let [started, finished] = [0, 0];
  const failed = (word) => {
    finished += 1;
    failures[word] = (failures[word] ?? 0) + 1;
  };
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
    while (started < total && free.length > 0 && start + (started * 1000) / rate <= now) {
      reserve(free.pop(), first + started, start + (started * 1000) / rate);
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

const KINDS = { closed: saturate, paced: pace, watch };

async function run(plan) {
  const cpu = process.cpuUsage();
  const result = await KINDS[plan.kind](plan);
  const { user, system } = process.cpuUsage(cpu);
  return { ...result, cpu_s: (user + system) / 1e6 };
}

process.on('message', (plan) => {
  run(plan).then(
    (result) => process.send({ result }),
    (error) => process.send({ error: error.message }),
  );
});
