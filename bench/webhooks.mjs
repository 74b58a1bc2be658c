// The dispatcher: how many deliveries one process makes per second, how long an expiry takes to its first
// attempt, and how an endpoint that hangs affects the others.
import { setTimeout as delay } from 'node:timers/promises';
import { countCpu, cpuSecondsOf } from './cpu.mjs';
import { unlessShort, until } from './duration.mjs';
import { startEndpoint } from './endpoint.mjs';
import { Harness } from './harness.mjs';
import { Holds } from './holds.mjs';
import { aim, say, spreadOf, storeOf, sumOf, tableOf, tenths, whole } from './report.mjs';
import { allowLocalWebhooks, subscribe } from './service.mjs';

/** @typedef {{ harness: Harness, endpoint: import('./endpoint.mjs').Endpoint, holds: Holds }} World */

const TENANTS = 16;
const BACKLOG = unlessShort(30_000, 2000);
const MAKE_MS = unlessShort(15_000, 5000);
const STEADY = { perSecond: 200, seconds: unlessShort(20, 2), ttlMs: 1000 };
const TIMEOUT_MS = 120_000;
const POLL_MS = 200;
const TARGETS = { per_second: 2000, p99_ms: 500, more_ms: 100 };

/** @returns {Promise<import('./types.ts').Measured>} */
export const measure = () =>
  Harness.with({}, async (harness) => {
    const endpoint = harness.use(await startEndpoint(), (one) => one.stop());
    const { port, socket } = harness.service;
    await allowLocalWebhooks(port);
    const tenants = await harness.targets('webhooks', TENANTS);
    for (const { tenant } of tenants) {
      await subscribe(port, `${endpoint.url}/${tenant}`, tenant);
    }
    const holds = harness.use(new Holds(socket, tenants), (one) => one.close());
    const world = { harness, endpoint, holds };
    const backlog = await measureBacklog(world);
    const calm = await measureSteady(world, 'every endpoint answers');
    await subscribe(port, `${endpoint.url}/hang`, tenants[0]?.tenant);
    const beside = await measureSteady(world, 'one endpoint hangs for 30 s');
    const { perSecond } = STEADY;
    const rows = [
      { ...backlog, name: 'a backlog that expires at once' },
      { ...calm, name: `${perSecond} expirations a second`, per_second: perSecond },
      { ...beside, name: 'the same, one more endpoint hangs 30 s', per_second: perSecond },
    ];
    return {
      title: 'The dispatcher',
      subject: 'The dispatcher, 16 tenants with a subscription each, the endpoint beside it.',
      store: await storeOf(harness.redis),
      tables: [tableOf(rows, COLUMNS, 1)],
      figures: [
        aim('deliveries of one process', backlog.per_second, {
          unit: ' a second',
          atLeast: TARGETS.per_second,
        }),
        aim('from expiry to first attempt, p99', calm.p99_ms, { unit: ' ms', atMost: TARGETS.p99_ms }),
        aim('the same beside an endpoint that hangs: more', beside.p99_ms - calm.p99_ms, {
          unit: ' ms',
          atMost: TARGETS.more_ms,
        }),
      ],
    };
  });

/** @param {World} world */
async function measureBacklog(world) {
  say(`making ${BACKLOG} holds`);
  const endsAt = Date.now() + MAKE_MS;
  await world.holds.make(BACKLOG, { endsAt });
  await delay(endsAt - Date.now());
  say('they expire at once, and each is delivered');
  const phase = await watched(world, BACKLOG, () => Promise.resolve());
  const first = Math.min(...phase.inboxes.map((inbox) => inbox.first));
  const last = Math.max(...phase.inboxes.map((inbox) => inbox.last));
  return { ...phase, per_second: phase.count / ((last - first) / 1000) };
}

/**
 * @param {World} world
 * @param {string} title
 */
function measureSteady(world, title) {
  const { perSecond, seconds } = STEADY;
  say(`${perSecond} expirations a second for ${seconds} s: ${title}`);
  return watched(world, perSecond * seconds, () => world.holds.pace(STEADY));
}

/**
 * From the start of the work until the endpoints that respond have so many events. Polls rarely, so that polling costs little.
 * @param {World} world
 * @param {number} count
 * @param {() => Promise<void>} work
 */
async function watched({ harness, endpoint }, count, work) {
  await endpoint.received({ forget: true });
  const used = await countCpu(harness.service.pid, harness.redis);
  const before = cpuSecondsOf(endpoint.pid);
  await work();
  const areAll = async () => (await endpoint.received({ forget: false })).delays.length >= count;
  await until(areAll, TIMEOUT_MS, `${count} events were not delivered`, POLL_MS);
  const use = await used();
  const endpoint_cpu_s = cpuSecondsOf(endpoint.pid) - before;
  const { inboxes, delays } = await endpoint.received({ forget: true });
  const repeated = sumOf(inboxes.map(({ requests }) => requests)) - delays.length;
  return { inboxes, repeated, ...spreadOf(delays), ...use, endpoint_cpu_s };
}

/** @type {Record<string, (row: Awaited<ReturnType<typeof watched>> & { name: string, per_second: number }) => string>} */
const COLUMNS = {
  phase: ({ name }) => name,
  delivered: ({ count }) => whole(count),
  repeated: ({ repeated }) => whole(repeated),
  'a second': ({ per_second }) => whole(per_second),
  'from expiry p50 ms': ({ p50_ms }) => whole(p50_ms),
  'p99 ms': ({ p99_ms }) => whole(p99_ms),
  'max ms': ({ max_ms }) => whole(max_ms),
  'CPU s: service': ({ server_cpu_s }) => tenths(server_cpu_s),
  Redis: ({ redis_cpu_s }) => tenths(redis_cpu_s),
  endpoint: ({ endpoint_cpu_s }) => tenths(endpoint_cpu_s),
  seconds: ({ elapsed_s }) => tenths(elapsed_s),
};
