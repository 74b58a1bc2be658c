// The sweeper and the dispatcher at saturation: 200 connections make holds of 2 s as fast as the service answers, and nobody settles them.
import { setTimeout as delay } from 'node:timers/promises';
import { unlessShort, until } from './duration.mjs';
import { Endpoint } from './endpoint.mjs';
import { Harness } from './harness.mjs';
import { Holds, latenessOf } from './holds.mjs';
import { leakResult } from './leak-report.mjs';
import { say, storeOf } from './report.mjs';
import { allowLocalWebhooks, askAsAdmin, subscribe } from './service.mjs';

/**
 * @typedef {{ name: string, tenants: number, instances: number, isSubscribed: boolean, eventsPerRequest?: number }} Case
 * @typedef {{ lateness_ms: number, backlog: number, expired: number, reserves: number, delivered: number }} Second
 * @typedef {{
 *   calm: readonly import('./types.ts').LeakResult[], leak: import('./types.ts').LeakResult, lateness: import('./types.ts').Lateness,
 *   seconds: readonly Second[], loadSeconds: number,
 * }} Round  `calm` before and after it
 * @typedef {{ name: string, isSubscribed: boolean, rounds: readonly Round[] }} Measured
 */

const CONNECTIONS = 200;
const TTL_MS = 2000;
/** A lease that does not end while the benchmark runs. */
const LASTING_MS = 3_600_000;
const SECONDS = unlessShort({ warmUp: 3, calm: 5, leak: 15 }, { warmUp: 1, calm: 1, leak: 4 });
/** Odd, so that there is a median. */
const ROUNDS = unlessShort(3, 1);
const DRAIN_TIMEOUT_MS = 150_000;
const POLL_MS = 500;
const MANY = 64;

/** @type {readonly Case[]} */
const CASES = [
  { name: 'one tenant, one instance', tenants: 1, instances: 1, isSubscribed: false },
  { name: 'one tenant, two instances', tenants: 1, instances: 2, isSubscribed: false },
  { name: '64 tenants, one instance', tenants: MANY, instances: 1, isSubscribed: false },
  { name: '64 tenants, two instances', tenants: MANY, instances: 2, isSubscribed: false },
  { name: 'one tenant, subscribed', tenants: 1, instances: 1, isSubscribed: true },
  {
    name: 'one tenant, subscribed, 50 events a request',
    tenants: 1,
    instances: 1,
    isSubscribed: true,
    eventsPerRequest: 50,
  },
  { name: '64 tenants, subscribed', tenants: MANY, instances: 1, isSubscribed: true },
];

/** @param {{ only?: string }} options */
export async function measure({ only = '' }) {
  const cases = CASES.filter(({ name }) => name.includes(only));
  const measured = [];
  let store = '';
  for (const one of cases) {
    const { result, storeText } = await measureCase(one);
    measured.push(result);
    store = storeText;
  }
  return leakResult(store, measured);
}

/** @param {Case} one */
const measureCase = (one) =>
  Harness.with({ settings: { HOLDFAST_WORKERS: String(one.instances) } }, async (harness) => {
    const targets = await harness.targets('leak', one.tenants);
    const endpoint = one.isSubscribed
      ? harness.use(await Endpoint.start(), (started) => started.stop())
      : undefined;
    const { port, socket } = harness.service;
    if (endpoint !== undefined) {
      await allowLocalWebhooks(port);
      // Of one tenant, or of the operators for all of them.
      const owner = one.tenants === 1 ? 'leak-0' : undefined;
      const id = await subscribe(port, `${endpoint.url}/expired`, owner);
      if (one.eventsPerRequest !== undefined) {
        await askAsAdmin(port, 'PUT', `/ops/webhooks/${id}/options`, {
          events_per_request: one.eventsPerRequest,
        });
      }
    }
    const holds = harness.use(new Holds(socket, targets), (started) => started.close());
    const bench = new LeakBenchmark(harness, endpoint, holds, targets);
    return { result: await bench.measure(one), storeText: await storeOf(harness.redis) };
  });

class LeakBenchmark {
  /**
   * @param {Harness} harness
   * @param {Endpoint | undefined} endpoint
   * @param {Holds} holds
   * @param {readonly import('./types.ts').Target[]} targets
   */
  constructor(harness, endpoint, holds, targets) {
    this.harness = harness;
    this.service = harness.service;
    this.redis = harness.redis;
    this.endpoint = endpoint;
    this.holds = holds;
    this.targets = targets;
  }

  /**
   * Each round is between two stretches without leaks, because the speed of a shared machine drifts.
   * @param {Case} one
   * @returns {Promise<Measured>}
   */
  async measure({ name, isSubscribed }) {
    await this.reserve(`${name}: warming up`, SECONDS.warmUp, LASTING_MS);
    let before = await this.reserve(`${name}: without leaks`, SECONDS.calm, LASTING_MS);
    const rounds = [];
    while (rounds.length < ROUNDS) {
      const { leak, ...found } = await this.leaking(name);
      const after = await this.reserve(`${name}: without leaks`, SECONDS.calm, LASTING_MS);
      rounds.push({ ...found, leak, calm: [before, after], loadSeconds: SECONDS.leak });
      before = after;
    }
    return { name, isSubscribed, rounds };
  }

  /** @param {string} name */
  async leaking(name) {
    const mark = await this.holds.mark();
    const earlier = await this.delivered();
    const leak = await this.reserve(`${name}: every hold leaks`, SECONDS.leak, TTL_MS);
    await this.drained(leak.operations + sumOf(earlier.values()));
    const expired = await this.holds.expiredSince(mark);
    const seconds = secondsOf(leak, expired, await this.delivered());
    return { leak, lateness: latenessOf(expired), seconds };
  }

  /**
   * @param {string} title
   * @param {number} seconds
   * @param {number} ttlMs
   */
  async reserve(title, seconds, ttlMs) {
    say(title);
    const { harness, targets } = this;
    const plan = { ...harness.common(), connections: CONNECTIONS, seconds, ttlMs, targets };
    const result = await harness.load.ask({ kind: 'leak', ...plan });
    harness.next = result.next;
    return result;
  }

  /** @returns {Promise<Map<number, number>>} by second since 1970 */
  async delivered() {
    return (await this.endpoint?.bySecond()) ?? new Map();
  }

  /**
   * Waits until nothing is due, and everything is delivered. Polls rarely, so that polling costs nothing.
   * @param {number} count
   */
  async drained(count) {
    say('what is left expires');
    await delay(TTL_MS + POLL_MS);
    const tags = [...new Set(this.holds.places.map(({ tag }) => tag))];
    const isDone = async () => {
      const due = await Promise.all(tags.map((tag) => this.redis.zcount(`${tag}ttl`, '-inf', Date.now())));
      const isDelivered = this.endpoint === undefined || sumOf((await this.delivered()).values()) >= count;
      return due.every((some) => some === 0) && isDelivered;
    };
    await until(isDone, DRAIN_TIMEOUT_MS, 'the backlog was not drained', POLL_MS);
  }
}

/** @param {Iterable<number>} values */
const sumOf = (values) => [...values].reduce((sum, value) => sum + value, 0);

/**
 * What each second from the start of the load to the last event brought: the greatest lateness of what expired in it, and what was due and
 * not expired at its end.
 * @param {import('./types.ts').LeakResult} leak
 * @param {readonly import('./holds.mjs').Expired[]} expired
 * @param {Map<number, number>} delivered by second since 1970
 * @returns {Second[]}
 */
function secondsOf({ startedAt, bySecond }, expired, delivered) {
  const secondOf = (/** @type {number} */ ms) => Math.floor((ms - startedAt) / 1000);
  const lastAt = expired.reduce((latest, { at }) => Math.max(latest, at), startedAt);
  const count = Math.max(secondOf(lastAt), secondOf(Math.max(0, ...delivered.keys()) * 1000)) + 1;
  const seconds = Array.from({ length: count }, (_, second) => ({
    lateness_ms: 0,
    backlog: 0,
    expired: 0,
    reserves: bySecond[second] ?? 0,
    // The endpoint's seconds begin with the clock's.
    delivered: delivered.get(Math.floor(startedAt / 1000) + second) ?? 0,
  }));
  const became = Array.from({ length: count + 1 }, () => 0);
  for (const { deadline, at } of expired) {
    const second = seconds[secondOf(at)];
    if (second !== undefined) {
      second.expired += 1;
      second.lateness_ms = Math.max(second.lateness_ms, at - deadline);
      const due = Math.max(0, secondOf(deadline));
      became[due] = (became[due] ?? 0) + 1;
    }
  }
  let backlog = 0;
  for (const [index, second] of seconds.entries()) {
    backlog += (became[index] ?? 0) - second.expired;
    second.backlog = backlog;
  }
  return seconds;
}
