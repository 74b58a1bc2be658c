// The load of `npm run bench -- leak`, a separate process: reserves that nobody settles.
import { Latencies, open } from './http-connection.mjs';
import { answerPlans } from './load.mjs';
import { httpRequests } from './workload.mjs';

/** @param {import('./types.ts').LeakPlan} plan */
async function leak({ port, connections, seconds, ttlMs, targets, first }) {
  const requests = targets.map((target) => httpRequests(target, { ttlMs, graceMs: 0 }));
  const all = await open(port, connections);
  const latencies = new Latencies();
  const bySecond = Array.from({ length: seconds }, () => 0);
  const [start, startedAt] = [performance.now(), Date.now()];
  let number = first;
  const reserveInTurn = (/** @type {import('./http-connection.mjs').Connection} */ connection) =>
    new Promise((/** @type {(value?: undefined) => void} */ done, fail) => {
      const next = () => {
        const from = performance.now();
        if (from - start >= seconds * 1000) {
          connection.fail = undefined;
          done();
          return;
        }
        const request = requests[number % requests.length]?.reserve(number++) ?? '';
        const succeed = () => {
          const now = performance.now();
          const second = Math.floor((now - start) / 1000);
          latencies.add(now - from);
          bySecond[second] = (bySecond[second] ?? 0) + 1;
          next();
        };
        connection.send(request, succeed, fail);
      };
      next();
    });
  await Promise.all(all.map(reserveInTurn));
  const elapsed_s = (performance.now() - start) / 1000;
  all.forEach(({ socket }) => socket.destroy());
  const operations = number - first;
  const { p50_ms, p99_ms, max_ms } = latencies.summary();
  const rate = { operations, elapsed_s, per_second: operations / elapsed_s, next: number };
  return { ...rate, p50_ms, p99_ms, max_ms, startedAt, bySecond: bySecond.slice(0, seconds) };
}

/** @param {import('./types.ts').LeakPlan} plan */
async function run(plan) {
  const cpu = process.cpuUsage();
  const result = await leak(plan);
  const { user, system } = process.cpuUsage(cpu);
  return { ...result, cpu_s: (user + system) / 1e6 };
}

answerPlans(run);
