// The dispatcher: how many deliveries one process makes per second, how long an expiry takes to its first
// attempt, and how an endpoint that hangs affects the others.
import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { countCpu, cpuSecondsOf, otherCpuSeconds } from './cpu.mjs';
import { unlessShort } from './duration.mjs';
import { Endpoint } from './endpoint.mjs';
import { quantile, say } from './report.mjs';
import { allowLocalWebhooks, askAsAdmin, provision, startService } from './service.mjs';
import { Holds } from './sweep-holds.mjs';
import { webhooksResult } from './webhooks-report.mjs';

const TENANTS = 16;
const BACKLOG = unlessShort(30_000, 2000);
const MAKE_MS = unlessShort(15_000, 5000);
const STEADY = { perSecond: 200, seconds: unlessShort(20, 2), ttlMs: 1000 };
const TIMEOUT_MS = 120_000;
const POLL_MS = 200;

export async function measure() {
  const service = await startService();
  const redis = new Redis({ path: service.socket, maxRetriesPerRequest: 1, retryStrategy: () => null });
  redis.on('error', () => undefined);
  const endpoint = await Endpoint.start();
  /** @type {Holds | undefined} */
  let holds;
  try {
    await redis.config('SET', 'auto-aof-rewrite-percentage', '0');
    await allowLocalWebhooks(service.port);
    const tenants = [];
    for (let number = 0; number < TENANTS; number += 1) {
      const tenant = await provision(service.port, `webhooks-${number}`);
      await subscribe(service.port, tenant.tenant, `${endpoint.url}/${tenant.tenant}`);
      tenants.push(tenant);
    }
    holds = new Holds(service.socket, tenants, randomBytes(4).toString('hex'));
    const bench = new WebhooksBenchmark(service, redis, endpoint, holds);
    return await webhooksResult(redis, { perSecond: STEADY.perSecond, ...(await bench.measure()) });
  } finally {
    endpoint.stop();
    holds?.close();
    redis.disconnect();
    await service.stop();
  }
}

/**
 * @param {number} port
 * @param {string} tenant
 * @param {string} url
 */
function subscribe(port, tenant, url) {
  return askAsAdmin(port, 'POST', `/v1/admin/webhooks?tenant_id=${tenant}`, {
    url,
    event_types: ['reservation.expired'],
  });
}

/** Creating the holds takes its share, too. */
function ownCpuSeconds() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

class WebhooksBenchmark {
  /**
   * @param {import('./types.ts').Service} service
   * @param {Redis} redis
   * @param {Endpoint} endpoint
   * @param {Holds} holds
   */
  constructor(service, redis, endpoint, holds) {
    this.service = service;
    this.redis = redis;
    this.endpoint = endpoint;
    this.holds = holds;
  }

  async measure() {
    const backlog = await this.backlog();
    const calm = await this.steady('every endpoint answers');
    const [{ tenant } = { tenant: '' }] = this.holds.tenants;
    await subscribe(this.service.port, tenant, `${this.endpoint.url}/hang`);
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
    const { perSecond, seconds, ttlMs } = STEADY;
    say(`${perSecond} expirations a second for ${seconds} s: ${title}`);
    return this.watched(async () => {
      const began = performance.now();
      for (let step = 0; step < seconds * 50; step += 1) {
        await this.holds.make(perSecond / 50, { ttlMs });
        await delay(Math.max(0, began + (step + 1) * 20 - performance.now()));
      }
      await this.delivered(perSecond * seconds);
    });
  }

  /**
   * Waits until the endpoints that respond have all of them. Polls rarely, so that polling costs little.
   * @param {number} count
   */
  async delivered(count) {
    const deadline = performance.now() + TIMEOUT_MS;
    for (;;) {
      const { delays } = await this.endpoint.received({ forget: false });
      if (delays.length >= count) {
        return;
      }
      if (performance.now() > deadline) {
        throw new Error(`${delays.length} of ${count} were delivered in time`);
      }
      await delay(POLL_MS);
    }
  }

  /** @param {() => Promise<void>} work */
  async watched(work) {
    await this.endpoint.received({ forget: true });
    const used = await countCpu(this.service.pid, this.redis);
    const before = { endpoint: cpuSecondsOf(this.endpoint.pid), own: ownCpuSeconds() };
    await work();
    const use = await used();
    const endpoint_cpu_s = cpuSecondsOf(this.endpoint.pid) - before.endpoint;
    const own_cpu_s = ownCpuSeconds() - before.own;
    const { inboxes, delays } = await this.endpoint.received({ forget: true });
    const { elapsed_s, server_cpu_s, redis_cpu_s } = use;
    return {
      inboxes,
      count: delays.length,
      repeated: inboxes.reduce((sum, { requests }) => sum + requests, 0) - delays.length,
      p50_ms: quantile(delays, 0.5),
      p99_ms: quantile(delays, 0.99),
      max_ms: quantile(delays, 1),
      elapsed_s,
      server_cpu_s,
      redis_cpu_s,
      endpoint_cpu_s,
      other_cpu_s: otherCpuSeconds(use, (endpoint_cpu_s || 0) + own_cpu_s),
    };
  }
}
