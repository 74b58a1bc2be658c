import { afterEach, beforeAll, expect, test } from '@jest/globals';
import { randomFrom, seedFrom } from '../../scripts/seed.mjs';
import { buildService } from '../support/built-service.js';
import { ClusterSite } from '../support/cluster-site.js';
import type { HoldfastClient } from '../support/holdfast.js';
import type { Entry } from '../support/journaled-load.js';
import { stopAllRedis } from '../support/redis-server.js';
import { Deliveries } from '../support/soak/deliveries.js';
import { lossesOf } from '../support/soak/losses.js';
import { SoakReport } from '../support/soak/report.js';
import { EVENT_TYPES, playRound, shuffledFaults, type SoakSite, verifyAll } from '../support/soak/round.js';
import { StoredHolds } from '../support/stored-holds.js';
import { clusterUrl } from '../support/store.js';
import { allowLoopback, subscribe, SYSTEM } from '../webhooks/dispatching.js';

/**
 * `npm run soak -- --minutes=<n>`: rounds of load with one fault each on a cluster. SOAK_SEED=<seed> repeats
 * the random choices, though not their timing. Without minutes, only the accounting of losses and deliveries
 * is tested.
 */
const minutes = Number(process.env['SOAK_MINUTES'] ?? 0);
const MOST_REFUSED = 0.02;

test('a soak fails if a response was lost that was not at risk, and names those that a failover may lose', () => {
  const entry: Entry = { kind: 'fund', body: { idempotency_key: 'k' }, answer: { new: 2 } };
  const acknowledged = (answeredAt: number) => [{ entry, outcome: '{"new":1}', answeredAt }];
  const crash = { keptUntil: 100, killedAt: 200, replacedAt: 300, hadSlot: () => true };
  const forbidden = ['fund k: first {"new":1}, then {"new":2}'];
  expect(lossesOf(acknowledged(150), crash)).toEqual({ atRisk: 1, lost: 1, forbidden: [] });
  expect(lossesOf(acknowledged(99), crash)).toEqual({ atRisk: 0, lost: 1, forbidden });
  expect(lossesOf(acknowledged(301), crash)).toEqual({ atRisk: 0, lost: 1, forbidden });
  expect(lossesOf(acknowledged(150), undefined)).toEqual({ atRisk: 0, lost: 1, forbidden });
});

test('a soak fails on an event that never arrives, or arrives before an earlier one', () => {
  const refusals = [false, true, false, false];
  const deliveries = new Deliveries(() => refusals.shift() === true);
  ['e1', 'e2', 'e4', 'e3', 'e1'].forEach((id) => deliveries.take(id));
  expect(deliveries.missing(['e1', 'e2', 'e3', 'e4', 'e5'])).toEqual(['e2', 'e5']);
  expect(deliveries.outOfOrder(['e1', 'e2', 'e3', 'e4'])).toEqual(['e4']);
  deliveries.take('e2');
  expect(deliveries.missing(['e2'])).toEqual([]);
  expect(deliveries).toMatchObject({ attempts: 6, refused: 1, repeated: 1 });
  expect(deliveries.beyond(new Set(['e1', 'e2', 'e3']))).toBe(1);
});

if (minutes > 0) {
  const cleanUps: (() => Promise<unknown> | void)[] = [];
  beforeAll(buildService, 120_000);
  afterEach(async () => {
    for (const cleanUp of cleanUps.splice(0).reverse()) {
      await cleanUp();
    }
    await stopAllRedis();
  });

  const openSite = async (random: () => number): Promise<SoakSite> => {
    const deliveries = new Deliveries(() => random() < MOST_REFUSED);
    const receiver = await deliveries.listen();
    cleanUps.push(() => receiver.stop());
    const cluster = await ClusterSite.open(2, { LOG_LEVEL: 'info' });
    cleanUps.push(() => cluster.close());
    const stored = new StoredHolds(clusterUrl(cluster.setup));
    stored.redis.on('error', () => undefined);
    cleanUps.push(() => stored.close());
    const [first] = cluster.clients() as [HoldfastClient];
    await allowLoopback(first);
    await subscribe(first, SYSTEM, receiver.url, { event_types: EVENT_TYPES });
    return { cluster, stored, deliveries, logged: new Set() };
  };

  test(
    `for ${minutes} minutes of load, kills, failovers and rollovers nothing is lost except what a failover may lose, nothing happens twice, and each event is delivered`,
    async () => {
      const seed = seedFrom('SOAK_SEED', 'soak');
      const random = randomFrom(seed);
      const site = await openSite(randomFrom(seed + 1));
      const report = new SoakReport();
      const began = performance.now();
      const minute = (): number => (performance.now() - began) / 60_000;
      let verified = '';
      for (let faults: string[] = []; minute() < minutes;) {
        faults = faults.length === 0 ? shuffledFaults(random) : faults;
        const fault = faults.shift() as string;
        const figures = await playRound(site, fault, random);
        report.add(fault, figures);
        verified = await verifyAll(site);
        process.stdout.write(`  minute ${minute().toFixed(1)}: ${fault}: ${JSON.stringify(figures)}\n`);
      }
      const { deliveries, logged } = site;
      const lines = report.lines([
        ['Delivered again, though the endpoint had accepted it', deliveries.repeated.toLocaleString('en-US')],
        ['Delivered, and then lost in a failover', deliveries.beyond(logged).toLocaleString('en-US')],
        ['Refused by the endpoint, and delivered again', deliveries.refused.toLocaleString('en-US')],
      ]);
      process.stdout.write(`${lines.join('\n')}\n\n  verify: ${verified}\n`);
    },
    (minutes + 10) * 60_000,
  );
}
