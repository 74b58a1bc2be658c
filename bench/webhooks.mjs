// The dispatcher: how many deliveries a second one process makes, how long an expiry takes to its first attempt, and what an endpoint
// that hangs does to the others.
import { fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { unlessShort } from './duration.mjs';
import { machineCpuSeconds, say } from './reserve.mjs';
import { askAsAdmin, cpuSecondsOf, provision, startService } from './service.mjs';
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
  const endpoint = fork(fileURLToPath(new URL('./webhook-endpoint.mjs', import.meta.url)));
  let holds;
  try {
    await redis.config('SET', 'auto-aof-rewrite-percentage', '0');
    const [{ port }] = await once(endpoint, 'message');
    const url = `http://127.0.0.1:${port}`;
    await askAsAdmin(service.port, 'PUT', '/v1/admin/config/webhook-security', {
      blocked_cidr_ranges: [],
      allow_http: true,
    });
    const tenants = [];
    for (let number = 0; number < TENANTS; number += 1) {
      const tenant = await provision(service.port, `webhooks-${number}`);
      await subscribe(service.port, tenant, `${url}/${tenant.tenant}`);
      tenants.push(tenant);
    }
    holds = new Holds(service.socket, tenants, randomBytes(4).toString('hex'));
    const bench = new WebhooksBenchmark({ service, redis, endpoint, holds, url, tenants });
    return await webhooksResult(redis, { perSecond: STEADY.perSecond, ...(await bench.measure()) });
  } finally {
    endpoint.disconnect();
    holds?.close();
    redis.disconnect();
    await service.stop();
  }
}

function subscribe(port, { tenant }, url) {
  return askAsAdmin(port, 'POST', `/v1/admin/webhooks?tenant_id=${tenant}`, {
    url,
    event_types: ['reservation.expired'],
  });
}

/** Making the holds takes its share, too. */
function ownCpuSeconds() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

class WebhooksBenchmark {
  constructor(parts) {
    Object.assign(this, parts);
  }

  async measure() {
    const backlog = await this.backlog();
    const calm = await this.steady('every endpoint answers');
    await subscribe(this.service.port, this.tenants[0], `${this.url}/hang`);
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
    const first = Math.min(...phase.noted.map((path) => path.first));
    const last = Math.max(...phase.noted.map((path) => path.last));
    return { ...phase, seconds: (last - first) / 1000, per_second: phase.count / ((last - first) / 1000) };
  }

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

  /** Until the endpoints that answer have all of them; asked rarely, so that asking costs little. */
  async delivered(count) {
    const deadline = performance.now() + TIMEOUT_MS;
    for (;;) {
      const { delays } = await this.noted(false);
      if (delays.length >= count) {
        return;
      }
      if (performance.now() > deadline) {
        throw new Error(`${delays.length} of ${count} were delivered in time`);
      }
      await delay(POLL_MS);
    }
  }

  /** What came to the endpoints that answer. */
  async noted(forget) {
    this.endpoint.send({ forget });
    const [{ noted }] = await once(this.endpoint, 'message');
    const answered = noted.filter(({ path }) => !path.startsWith('/hang'));
    return { noted: answered, delays: answered.flatMap(({ delays }) => delays).sort((a, b) => a - b) };
  }

  async watched(work) {
    await this.noted(true);
    const before = {
      cpu: cpuSecondsOf(this.service.pid),
      redis: await this.redisCpuSeconds(),
      endpoint: cpuSecondsOf(this.endpoint.pid),
      own: ownCpuSeconds(),
      all: machineCpuSeconds(),
      at: performance.now(),
    };
    await work();
    const elapsed_s = (performance.now() - before.at) / 1000;
    const server_cpu_s = cpuSecondsOf(this.service.pid) - before.cpu;
    const redis_cpu_s = (await this.redisCpuSeconds()) - before.redis;
    const endpoint_cpu_s = cpuSecondsOf(this.endpoint.pid) - before.endpoint;
    const { noted, delays } = await this.noted(true);
    const at = (share) => delays[Math.max(0, Math.ceil(delays.length * share) - 1)];
    return {
      noted,
      count: delays.length,
      repeated: noted.reduce((sum, { requests }) => sum + requests, 0) - delays.length,
      p50_ms: at(0.5),
      p99_ms: at(0.99),
      max_ms: at(1),
      elapsed_s,
      server_cpu_s,
      redis_cpu_s,
      endpoint_cpu_s,
      other_cpu_s: Math.max(
        0,
        machineCpuSeconds() -
          before.all -
          server_cpu_s -
          redis_cpu_s -
          endpoint_cpu_s -
          (ownCpuSeconds() - before.own),
      ),
    };
  }

  async redisCpuSeconds() {
    const info = await this.redis.info('cpu');
    const read = (name) => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(info)?.[1] ?? 0);
    return read('used_cpu_user') + read('used_cpu_sys');
  }
}
