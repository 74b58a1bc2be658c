// The dispatcher: how many deliveries one process makes per second, how long an expiry takes to its first
// attempt, and how an endpoint that hangs affects the others.
import { setTimeout as delay } from 'node:timers/promises';
import { countCpu, cpuSecondsOf } from './cpu.mjs';
import { unlessShort, until } from './duration.mjs';
import { Endpoint } from './endpoint.mjs';
import { Harness } from './harness.mjs';
import { Holds } from './holds.mjs';
import { aim, say, spreadOf, storeOf, tableOf, tenths, whole } from './report.mjs';
import { allowLocalWebhooks, subscribe } from './service.mjs';

/**
 * @typedef {Awaited<ReturnType<WebhooksBenchmark['watched']>>} Deliveries
 * @typedef {Awaited<ReturnType<WebhooksBenchmark['measure']>>} Measured
 */

const TENANTS = 16;
const BACKLOG = unlessShort(30_000, 2000);
const MAKE_MS = unlessShort(15_000, 5000);
const STEADY = { perSecond: 200, seconds: unlessShort(20, 2), ttlMs: 1000 };
const TIMEOUT_MS = 120_000;
const POLL_MS = 200;
const TARGETS = { per_second: 2000, p99_ms: 500, more_ms: 100 };

export const measure = () =>
  Harness.with({}, async (harness) => {
    const endpoint = harness.use(await Endpoint.start(), (one) => one.stop());
    const { port, socket } = harness.service;
    await allowLocalWebhooks(port);
    const tenants = await harness.targets('webhooks', TENANTS);
    for (const { tenant } of tenants) {
      await subscribe(port, `${endpoint.url}/${tenant}`, tenant);
    }
    const holds = harness.use(new Holds(socket, tenants), (one) => one.close());
    const measured = await new WebhooksBenchmark(harness, endpoint, holds).measure();
    return resultOf(measured, await storeOf(harness.redis));
  });

class WebhooksBenchmark {
  /**
   * @param {Harness} harness
   * @param {Endpoint} endpoint
   * @param {Holds} holds
   */
  constructor({ service, redis }, endpoint, holds) {
    this.service = service;
    this.redis = redis;
    this.endpoint = endpoint;
    this.holds = holds;
  }

  async measure() {
    const backlog = await this.backlog();
    const calm = await this.steady('every endpoint answers');
    const [{ tenant } = { tenant: '' }] = this.holds.places;
    await subscribe(this.service.port, `${this.endpoint.url}/hang`, tenant);
    const beside = await this.steady('one endpoint hangs for 30 s');
    return { backlog, calm, beside };
  }

  async backlog() {
    say(`making ${BACKLOG} holds`);
    const endsAt = Date.now() + MAKE_MS;
    await this.holds.make(BACKLOG, { endsAt });
    await delay(endsAt - Date.now());
    say('they expire at once, and each is delivered');
    const phase = await this.watched(() => this.delivered(BACKLOG));
    const first = Math.min(...phase.inboxes.map((inbox) => inbox.first));
    const last = Math.max(...phase.inboxes.map((inbox) => inbox.last));
    return { ...phase, per_second: phase.count / ((last - first) / 1000) };
  }

  /** @param {string} title */
  async steady(title) {
    const { perSecond, seconds } = STEADY;
    say(`${perSecond} expirations a second for ${seconds} s: ${title}`);
    return this.watched(async () => {
      await this.holds.pace(STEADY);
      await this.delivered(perSecond * seconds);
    });
  }

  /**
   * Waits until the endpoints that respond have all of them. Polls rarely, so that polling costs little.
   * @param {number} count
   */
  async delivered(count) {
    const areAll = async () => (await this.endpoint.received({ forget: false })).delays.length >= count;
    await until(areAll, TIMEOUT_MS, `${count} events were not delivered`, POLL_MS);
  }

  /** @param {() => Promise<void>} work */
  async watched(work) {
    await this.endpoint.received({ forget: true });
    const used = await countCpu(this.service.pid, this.redis);
    const before = cpuSecondsOf(this.endpoint.pid);
    await work();
    const use = await used();
    const endpoint_cpu_s = cpuSecondsOf(this.endpoint.pid) - before;
    const { inboxes, delays } = await this.endpoint.received({ forget: true });
    const repeated = inboxes.reduce((sum, { requests }) => sum + requests, 0) - delays.length;
    return { inboxes, repeated, ...spreadOf(delays), ...use, endpoint_cpu_s };
  }
}

/**
 * @param {Measured} measured
 * @param {string} store
 * @returns {import('./types.ts').Measured}
 */
function resultOf({ backlog, calm, beside }, store) {
  const { perSecond } = STEADY;
  /** @type {Record<string, (row: Deliveries & { name: string, per_second: number }) => string>} */
  const columns = {
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
  const rows = [
    { ...backlog, name: 'a backlog that expires at once' },
    { ...calm, name: `${perSecond} expirations a second`, per_second: perSecond },
    { ...beside, name: 'the same, one more endpoint hangs 30 s', per_second: perSecond },
  ];
  const ms = ' ms';
  const more = beside.p99_ms - calm.p99_ms;
  return {
    title: 'The dispatcher',
    command: 'npm run bench -- webhooks',
    subject: 'The dispatcher, 16 tenants with a subscription each, the endpoint beside it.',
    store,
    tables: [tableOf(rows, columns, 1)],
    figures: [
      aim('deliveries of one process', backlog.per_second, {
        unit: ' a second',
        atLeast: TARGETS.per_second,
      }),
      aim('from expiry to first attempt, p99', calm.p99_ms, { unit: ms, atMost: TARGETS.p99_ms }),
      aim('the same beside an endpoint that hangs: more', more, { unit: ms, atMost: TARGETS.more_ms }),
    ],
  };
}
