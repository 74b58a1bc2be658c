// The sweeper: how late it is in the steady state, how fast it drains a backlog and how that affects
// concurrent requests, whether holds in their grace starve due ones, and the cost when there is nothing to
// do.
import { setTimeout as delay } from 'node:timers/promises';
import { countCpu } from './cpu.mjs';
import { unlessShort, until } from './duration.mjs';
import { Harness } from './harness.mjs';
import { Holds, latenessOf } from './holds.mjs';
import { aim, figure, hundredths, known, say, storeOf, tableOf, tenths, whole } from './report.mjs';

/**
 * @typedef {import('./types.ts').Lateness} Lateness
 * @typedef {{ harness: Harness, holds: Holds }} World
 * @typedef {Awaited<ReturnType<typeof measureRound>>} Round
 * @typedef {{
 *   name: string, count?: number, per_second?: number, lateness?: Lateness, result?: import('./types.ts').HttpResult | undefined
 * } & Partial<import('./types.ts').CpuUse>} Row
 */

const TENANTS = 16;
const CONNECTIONS = 32;
const STEADY = { perSecond: 500, seconds: unlessShort(20, 2), ttlMs: 1000 };
const BACKLOG = unlessShort(100_000, 5000);
/** Long enough to create the backlog before it is due. */
const MAKE_MS = unlessShort(40_000, 5000);
/** Odd, so that there is a median. */
const ROUNDS = unlessShort(3, 1);
const LOAD = unlessShort({ warmUp: 3, saturate: 4, paced: 8 }, { warmUp: 1, saturate: 1, paced: 2 });
const DRAIN_TIMEOUT_MS = 60_000;
const GRACE = { held: 1500, graceMs: 60_000, due: 200 };
const SETTLE_MS = unlessShort(35_000, 1000);
const IDLE_SECONDS = unlessShort(30, 2);
const TARGETS = { per_second: 20_000, p99_ms: 250, max_ms: 1000, times: 2, idle: 0.01 };

/** @returns {Promise<import('./types.ts').Measured>} */
export async function measure() {
  say('an idle sweeper, and an idle instance without one');
  const [sweeper, without] = await Promise.all([idleCost('sweeper'), idleCost('api')]);
  return Harness.with({}, async (harness) => {
    await harness.target();
    const tenants = await harness.targets('sweep', TENANTS);
    const holds = harness.use(new Holds(harness.service.socket, tenants), (one) => one.close());
    const world = { harness, holds };
    const steady = await measureSteady(world);
    const alone = await backlog(world, 'a backlog with nothing beside it', () => Promise.resolve(undefined));
    say('warming up');
    await harness.saturate(CONNECTIONS, LOAD.warmUp);
    const rounds = [];
    while (rounds.length < ROUNDS) {
      rounds.push(await measureRound(world));
    }
    const grace = await measureGrace(world);
    /** @type {Row[]} */
    const rows = [
      {
        name: 'steady',
        count: steady.count,
        per_second: STEADY.perSecond,
        lateness: steady,
        elapsed_s: STEADY.seconds,
      },
      { name: 'backlog, nothing beside it', ...alone },
      ...rounds.flatMap(({ title, calm, beside }) => [
        { name: title, ...calm },
        { name: 'the same beside a backlog', ...beside },
      ]),
      {
        name: `${whole(GRACE.held)} in grace, ${GRACE.due} due behind them`,
        count: grace.count,
        lateness: grace,
      },
    ];
    return {
      title: 'The sweeper',
      subject: 'The sweeper, three budgeted scopes a hold, 16 tenants.',
      store: await storeOf(harness.redis),
      tables: [tableOf(rows, COLUMNS, 1)],
      figures: figuresOf({ steady, alone, rounds, grace, idle: sweeper - without }),
    };
  });
}

/**
 * CPU seconds per second of the service and of its Redis while nothing happens.
 * @param {string} roles
 */
const idleCost = (roles) =>
  Harness.with({ settings: { HOLDFAST_ROLES: roles } }, async ({ service, redis }) => {
    // Half a minute after the start, Node.js collects the garbage of the start once more.
    await delay(SETTLE_MS);
    const used = await countCpu(service.pid, redis);
    await delay(IDLE_SECONDS * 1000);
    const { server_cpu_s, redis_cpu_s } = await used();
    return (server_cpu_s + redis_cpu_s) / IDLE_SECONDS;
  });

/** @param {World} world */
async function measureSteady({ holds }) {
  const { perSecond, seconds, ttlMs } = STEADY;
  say(`${perSecond} expirations a second for ${seconds} s`);
  const mark = await holds.mark();
  await holds.pace(STEADY);
  await delay(ttlMs + 1500);
  return latenessOf(await holds.expiredSince(mark));
}

/**
 * The throughput that the service reaches, the latencies at half of that, and the same with a backlog.
 * @param {World} world
 */
async function measureRound(world) {
  const rate = (await world.harness.saturate(CONNECTIONS, LOAD.saturate)).per_second / 2;
  const title = `half load, ${Math.round(rate)} operations a second`;
  say(`${title}, and no backlog`);
  const load = () => world.harness.paced(rate, LOAD.paced);
  const calm = await counted(world, load);
  const beside = await backlog(world, `a backlog beside ${title}`, load);
  return { title, calm, beside };
}

/**
 * The load, if any, starts as the backlog becomes due.
 * @template {import('./types.ts').HttpResult | undefined} LoadResult
 * @param {World} world
 * @param {string} title
 * @param {() => Promise<LoadResult>} load
 */
async function backlog(world, title, load) {
  const { harness, holds } = world;
  say(`${title}: making ${BACKLOG} holds`);
  const mark = await holds.mark();
  const endsAt = Date.now() + MAKE_MS;
  await holds.make(BACKLOG, { endsAt });
  if (Date.now() > endsAt) {
    throw new Error(`the backlog took longer to make than ${MAKE_MS} ms`);
  }
  await delay(endsAt - Date.now() - 100);
  say(title);
  const isDrained = async () => {
    const left = await Promise.all(holds.places.map(({ tag }) => harness.redis.zcard(`${tag}ttl`)));
    return left.every((count) => count === 0);
  };
  const phase = await counted(world, async () => {
    // Polls rarely, so that polling costs nothing.
    const drained = until(isDrained, DRAIN_TIMEOUT_MS, 'the backlog was not drained', 200);
    const [result] = await Promise.all([load(), drained]);
    return result;
  });
  const expired = await holds.expiredSince(mark);
  const last = expired.reduce((latest, { at }) => Math.max(latest, at), 0);
  const first = expired.reduce((earliest, { at }) => Math.min(earliest, at), Infinity);
  return {
    ...phase,
    count: expired.length,
    per_second: expired.length / ((last - first) / 1000),
    lateness: latenessOf(expired),
  };
}

/** @param {World} world */
async function measureGrace({ harness, holds }) {
  say(`${GRACE.held} in a long grace, and due ones behind them`);
  const places = holds.places.slice(0, 1);
  await holds.make(GRACE.held, { ttlMs: 1000, graceMs: GRACE.graceMs, places });
  await delay(1500);
  const mark = await holds.mark();
  await holds.make(GRACE.due, { ttlMs: 1000, places });
  await delay(3000);
  const left = await harness.redis.zcard(`${places[0]?.tag}ttl`);
  return { left, ...latenessOf(await holds.expiredSince(mark)) };
}

/**
 * @template {import('./types.ts').HttpResult | undefined} LoadResult
 * @param {World} world
 * @param {() => Promise<LoadResult>} work
 */
async function counted({ harness }, work) {
  const used = await countCpu(harness.service.pid, harness.redis);
  const result = await work();
  return { result, ...(await used()) };
}

/** @type {Record<string, (row: Row) => string | undefined>} */
const COLUMNS = {
  phase: ({ name }) => name,
  expired: ({ count }) => known(count, whole),
  'a second': ({ per_second }) => known(per_second, whole),
  'lateness p50 ms': ({ lateness }) => known(lateness?.p50_ms, whole),
  'p99 ms': ({ lateness }) => known(lateness?.p99_ms, whole),
  'max ms': ({ lateness }) => known(lateness?.max_ms, whole),
  'request p50 ms': ({ result }) => known(result?.p50_ms, hundredths),
  'p99 ms ': ({ result }) => known(result?.p99_ms, hundredths),
  'CPU s: service': ({ server_cpu_s }) => known(server_cpu_s, tenths),
  Redis: ({ redis_cpu_s }) => known(redis_cpu_s, tenths),
  seconds: ({ elapsed_s }) => known(elapsed_s, tenths),
};

/**
 * @param {{
 *   steady: Lateness, alone: { per_second: number, lateness: Lateness }, rounds: Round[], grace: Lateness & { left: number }, idle: number
 * }} measured
 */
function figuresOf({ steady, alone, rounds, grace, idle }) {
  const all = [steady, alone.lateness, ...rounds.map(({ beside }) => beside.lateness), grace];
  const early = Math.min(...all.map(({ min_ms }) => min_ms));
  const made = STEADY.perSecond * STEADY.seconds;
  const rate = { unit: ' a second', atLeast: TARGETS.per_second };
  return [
    aim('steady state: lateness p99', steady.p99_ms, { unit: ' ms', atMost: TARGETS.p99_ms }),
    aim('steady state: lateness max', steady.max_ms, { unit: ' ms', atMost: TARGETS.max_ms }),
    figure(
      'steady state: expired of those made',
      `${whole(steady.count)} of ${whole(made)}`,
      'all',
      steady.count === made,
    ),
    figure('never early: least lateness of all phases', `${early} ms`, '> 0 ms', early > 0),
    aim(`drain of ${whole(BACKLOG)} with nothing beside it`, alone.per_second, rate),
    aim(
      `drain of ${whole(BACKLOG)} beside half load`,
      rounds.map(({ beside }) => beside.per_second),
      rate,
    ),
    aim(
      'request p99 beside the drain, times that without it',
      rounds.map(({ calm, beside }) => beside.result.p99_ms / calm.result.p99_ms),
      { text: hundredths, atMost: TARGETS.times },
    ),
    figure(
      `due behind ${whole(GRACE.held)} in grace: expired, left in the index`,
      `${grace.count}, ${whole(grace.left)}`,
      `${GRACE.due}, ${whole(GRACE.held)}`,
      grace.count === GRACE.due && grace.left === GRACE.held,
    ),
    aim('idle sweeper of 64 partitions, service and Redis', idle, {
      text: (share) => `${(share * 100).toFixed(1)} %`,
      unit: ' of a core',
      atMost: TARGETS.idle,
    }),
  ];
}
