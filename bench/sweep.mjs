// The sweeper: how late it is in the steady state, how fast it drains a backlog and how that affects
// concurrent requests, whether holds in their grace starve due ones, and the cost when there is nothing to
// do.
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { countCpu } from './cpu.mjs';
import { unlessShort, until } from './duration.mjs';
import { Harness } from './harness.mjs';
import { Holds, latenessOf } from './holds.mjs';
import { say, spreadOf, storeOf } from './report.mjs';
import { sweepResult } from './sweep-report.mjs';

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
const PROBE_MS = 2;

export async function measure() {
  say('an idle sweeper, and an idle instance without one');
  const [sweeper, without] = await Promise.all([idleCost('sweeper'), idleCost('api')]);
  return Harness.with({}, async (harness) => {
    await harness.target();
    const tenants = await harness.targets('sweep', TENANTS);
    const holds = harness.use(new Holds(harness.service.socket, tenants), (one) => one.close());
    const measured = await new SweepBenchmark(harness, holds).measure();
    return sweepResult(await storeOf(harness.redis), { idle: { sweeper, without }, ...measured });
  });
}

/**
 * CPU seconds per second of the service and of its Redis while nothing happens.
 * @param {string} roles
 */
function idleCost(roles) {
  return Harness.with({ settings: { HOLDFAST_ROLES: roles } }, async ({ service, redis }) => {
    // Half a minute after the start, Node.js collects the garbage of the start once more.
    await delay(SETTLE_MS);
    const used = await countCpu(service.pid, redis);
    await delay(IDLE_SECONDS * 1000);
    const { server_cpu_s, redis_cpu_s } = await used();
    return { service: server_cpu_s / IDLE_SECONDS, redis: redis_cpu_s / IDLE_SECONDS };
  });
}

/** @typedef {{ over: boolean, waits: number[], rss: number }} ProbeState  waits in ms, resident memory in bytes */

class SweepBenchmark {
  /**
   * @param {Harness} harness
   * @param {Holds} holds
   */
  constructor(harness, holds) {
    this.harness = harness;
    this.service = harness.service;
    this.redis = harness.redis;
    this.holds = holds;
  }

  async measure() {
    const steady = await this.steady();
    const alone = await this.backlog('a backlog with nothing beside it', () => Promise.resolve(undefined));
    say('warming up');
    await this.harness.saturate(CONNECTIONS, LOAD.warmUp);
    const rounds = [];
    while (rounds.length < ROUNDS) {
      rounds.push(await this.round());
    }
    const grace = await this.grace();
    return { backlog: BACKLOG, steady, alone, rounds, grace };
  }

  /** The throughput that the service reaches, the latencies at half of that, and the same with a backlog. */
  async round() {
    const rate = (await this.harness.saturate(CONNECTIONS, LOAD.saturate)).per_second / 2;
    const title = `half load, ${Math.round(rate)} operations a second`;
    say(`${title}, and no backlog`);
    const calm = await this.watched(() => this.harness.paced(rate, LOAD.paced));
    const beside = await this.backlog(`a backlog beside ${title}`, () =>
      this.harness.paced(rate, LOAD.paced),
    );
    return { title, calm, beside };
  }

  async steady() {
    const { perSecond, seconds, ttlMs } = STEADY;
    say(`${perSecond} expirations a second for ${seconds} s`);
    const mark = await this.holds.mark();
    await this.holds.pace(STEADY);
    await delay(ttlMs + 1500);
    const expired = await this.holds.expiredSince(mark);
    return { made: perSecond * seconds, perSecond, seconds, ...latenessOf(expired) };
  }

  /**
   * The load, if any, starts as the backlog becomes due.
   * @template {import('./types.ts').HttpResult | undefined} LoadResult
   * @param {string} title
   * @param {() => Promise<LoadResult>} load
   */
  async backlog(title, load) {
    say(`${title}: making ${BACKLOG} holds`);
    const mark = await this.holds.mark();
    const endsAt = Date.now() + MAKE_MS;
    await this.holds.make(BACKLOG, { endsAt });
    if (Date.now() > endsAt) {
      throw new Error(`the backlog took longer to make than ${MAKE_MS} ms`);
    }
    await delay(endsAt - Date.now() - 100);
    say(title);
    const watched = await this.watched(async () => {
      const [result] = await Promise.all([load(), this.drained()]);
      return result;
    });
    const expired = await this.holds.expiredSince(mark);
    const last = expired.reduce((latest, { at }) => Math.max(latest, at), 0);
    const first = expired.reduce((earliest, { at }) => Math.min(earliest, at), Infinity);
    return {
      ...watched,
      count: expired.length,
      per_second: expired.length / ((last - first) / 1000),
      lateness: latenessOf(expired),
    };
  }

  /** Waits until the index is empty. Polls rarely, so that polling costs nothing. */
  drained() {
    return until(
      async () => {
        const left = await Promise.all(this.holds.places.map(({ tag }) => this.redis.zcard(`${tag}ttl`)));
        return left.every((count) => count === 0);
      },
      DRAIN_TIMEOUT_MS,
      'the backlog was not drained',
      200,
    );
  }

  async grace() {
    say(`${GRACE.held} in a long grace, and due ones behind them`);
    const places = this.holds.places.slice(0, 1);
    await this.holds.make(GRACE.held, { ttlMs: 1000, graceMs: GRACE.graceMs, places });
    await delay(1500);
    const mark = await this.holds.mark();
    await this.holds.make(GRACE.due, { ttlMs: 1000, places });
    await delay(3000);
    const left = await this.redis.zcard(`${places[0]?.tag}ttl`);
    return { ...GRACE, left, ...latenessOf(await this.holds.expiredSince(mark)) };
  }

  /**
   * Runs something while a separate client measures how long it waits for Redis, and the service's memory is observed.
   * @template {import('./types.ts').HttpResult | undefined} LoadResult
   * @param {() => Promise<LoadResult>} work
   */
  async watched(work) {
    const used = await countCpu(this.service.pid, this.redis);
    /** @type {ProbeState} */
    const state = { over: false, waits: [], rss: residentBytes(this.service.pid) };
    const probing = this.probe(state);
    const result = await work();
    const use = await used();
    state.over = true;
    await probing;
    const { p99_ms, max_ms } = spreadOf(state.waits);
    return { result, ...use, wait_p99_ms: p99_ms, wait_max_ms: max_ms, rss_max: state.rss };
  }

  /** @param {ProbeState} state */
  async probe(state) {
    while (!state.over) {
      const asked = performance.now();
      await this.redis.ping();
      state.waits.push(performance.now() - asked);
      state.rss = Math.max(state.rss, residentBytes(this.service.pid));
      await delay(PROBE_MS);
    }
  }
}

/** @param {number} pid */
function residentBytes(pid) {
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) * 1024;
}
