// How late holds are returned when many become due each second, according to the event log.
import { setTimeout as delay } from 'node:timers/promises';
import { unlessShort } from './duration.mjs';
import { curve } from './growth-page.mjs';
import { Harness } from './harness.mjs';
import { Holds, latenessOf } from './holds.mjs';
import { say, whole } from './report.mjs';

const TENANTS = 16;
const RATES = unlessShort([50, 100, 200, 500, 1000, 2000], [50, 100]);
const SECONDS = unlessShort(10, 1);
const TTL_MS = 1000;
const TICK_MS = 20;
const AFTER_MS = 1500;

/** @returns {Promise<import('./types.ts').Curve>} */
export const byRateOfDue = () =>
  Harness.with({}, async (harness) => {
    const { socket } = harness.service;
    const tenants = await harness.targets('due', TENANTS);
    const holds = harness.use(new Holds(socket, tenants), (one) => one.close());
    const measured = [];
    for (const rate of RATES) {
      say(`${whole(rate)} reservations due a second`);
      measured.push(await latenessAt(holds, rate));
    }
    const labels = /** @type {const} */ ([
      'reservations that become due a second, 16 tenants',
      'ms after the deadline',
    ]);
    return curve('lateness', 'Lateness of the sweeper', labels, RATES, {
      p50: measured.map(({ p50_ms }) => p50_ms),
      p99: measured.map(({ p99_ms }) => p99_ms),
    });
  });

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
