// How late holds are returned when many become due each second, according to the event log.
import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { unlessShort } from './duration.mjs';
import { OWN_USE } from './growth-use.mjs';
import { say, whole } from './report.mjs';
import { provision, startService } from './service.mjs';
import { Holds, latenessOf } from './sweep-holds.mjs';

const TENANTS = 16;
const RATES = unlessShort([50, 100, 200, 500, 1000, 2000], [50, 100]);
const SECONDS = unlessShort(10, 1);
const TTL_MS = 1000;
const TICK_MS = 20;
const AFTER_MS = 1500;

/** @returns {Promise<import('./types.ts').Curve>} */
export async function byRateOfDue() {
  const service = await startService();
  /** @type {Holds | undefined} */
  let holds;
  try {
    const tenants = [];
    for (let number = 0; number < TENANTS; number += 1) {
      tenants.push(await provision(service.port, `due-${number}`));
    }
    holds = new Holds(service.socket, tenants, randomBytes(4).toString('hex'));
    await holds.redis.config('SET', 'auto-aof-rewrite-percentage', '0');
    const measured = [];
    for (const rate of RATES) {
      say(`${whole(rate)} reservations due a second`);
      measured.push(await latenessAt(holds, rate));
    }
    return {
      name: 'lateness',
      title: 'Lateness of the sweeper',
      xLabel: 'reservations that become due a second, 16 tenants',
      yLabel: 'ms after the deadline',
      xs: RATES,
      lines: [
        { name: 'p50', ys: measured.map(({ p50_ms }) => p50_ms) },
        { name: 'p99', ys: measured.map(({ p99_ms }) => p99_ms) },
      ],
    };
  } finally {
    if (holds !== undefined) {
      await OWN_USE.add(service.pid, holds.redis);
      holds.close();
    }
    await service.stop();
  }
}

/**
 * @param {Holds} holds
 * @param {number} rate
 */
async function latenessAt(holds, rate) {
  const mark = await holds.mark();
  const began = performance.now();
  for (let tick = 0; tick < (SECONDS * 1000) / TICK_MS; tick += 1) {
    await holds.make((rate * TICK_MS) / 1000, { ttlMs: TTL_MS });
    await delay(Math.max(0, began + (tick + 1) * TICK_MS - performance.now()));
  }
  await delay(TTL_MS + AFTER_MS);
  const lateness = latenessOf(await holds.expiredSince(mark));
  if (lateness.count !== rate * SECONDS) {
    throw new Error(`${lateness.count} of ${rate * SECONDS} expired`);
  }
  return lateness;
}
