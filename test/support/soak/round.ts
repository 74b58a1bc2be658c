import { expect } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import { VERIFIED, verifyLedger } from '../../../src/cli/verify.js';
import { eventIdOf } from '../../../src/events/event.js';
import type { ClusterSite, Crash } from '../cluster-site.js';
import { eventually } from '../eventually.js';
import { eventsFor, expectStored, isRollover, storedFor } from '../exactly-once.js';
import { ADMIN_API_KEY, type Answer, type Call, HoldfastClient } from '../holdfast.js';
import { JournaledLoad } from '../journaled-load.js';
import type { LedgerEvent } from '../ledger-state.js';
import { slotOf } from '../redis-topologies.js';
import type { StoredHolds } from '../stored-holds.js';
import type { Deliveries } from './deliveries.js';
import { type Acknowledged, acknowledgedBy, longestSilenceMs, lossesOf } from './losses.js';
import { type RoundFigures, sumOf } from './report.js';
import { endsTold, shortenPeriods } from './short-periods.js';

/** The events that the endpoint subscribes to. */
export const EVENT_TYPES = [
  'reservation.expired',
  'reservation.commit_overage',
  'budget.funded',
  'budget.reset_spent',
];
const TENANTS = 6;
const CLIENTS = 3;
const PAUSE_MS = 200;
const BOUNDARIES = 5;
const SHORTEST_PERIOD_MS = 1000;
/** Not shorter, because each poll reads a whole partition. */
const POLL_MS = 250;
const PATIENCE_MS = 60_000;

type Random = () => number;

/** Sends each request to a random instance of a site. */
class AnyInstance extends HoldfastClient {
  constructor(
    private readonly site: ClusterSite,
    private readonly random: Random,
  ) {
    super('');
  }

  override call(method: string, path: string, call?: Call): Promise<Answer> {
    const all = this.site.clients();
    return (all[Math.floor(this.random() * all.length)] as HoldfastClient).call(method, path, call);
  }
}

export interface SoakSite {
  readonly cluster: ClusterSite;
  readonly stored: StoredHolds;
  readonly deliveries: Deliveries;
  /** The events of all rounds that the logs have. */
  readonly logged: Set<string>;
}

/** A tenant of a round, with its clients. Its budgets have periods that end within seconds. */
export class SoakTenant {
  private acknowledged: Acknowledged[] = [];
  private unanswered = 0;

  private constructor(
    private readonly site: SoakSite,
    readonly load: JournaledLoad,
    private readonly tag: string,
    private readonly boundaries: ReadonlyMap<string, readonly number[]>,
  ) {}

  static async make(site: SoakSite, random: Random): Promise<SoakTenant> {
    const { cluster, stored } = site;
    const [first] = cluster.clients() as [HoldfastClient];
    const load = await JournaledLoad.make(first, random);
    load.client = new AnyInstance(cluster, random);
    load.pauseMs = PAUSE_MS;
    load.mayLose = true;
    const root = `tenant:${load.tenant.id}`;
    const tag = stored.tagOfTenant(load.tenant.id);
    const boundaries = new Map<string, number[]>();
    for (const scope of Object.keys(load.expectedBalances())) {
      const lengths = Array.from({ length: BOUNDARIES }, () =>
        Math.ceil(SHORTEST_PERIOD_MS * (1 + 2 * random())),
      );
      boundaries.set(scope, await shortenPeriods(first, stored.redis, { tag, scope }, lengths));
    }
    expect(boundaries.has(root)).toBe(true);
    return new SoakTenant(site, load, tag, boundaries);
  }

  run(): Promise<void> {
    return this.load.run(CLIENTS);
  }

  /**
   * Repeats all requests, whether they got a response or not, and compares everything that was stored and
   * delivered with the responses.
   * @throws if something was lost that was not at risk, happened twice, or is missing
   */
  async account(crashes: readonly Crash[]): Promise<RoundFigures> {
    const { load } = this;
    const slot = await slotOf(this.site.cluster.anyNode(), this.tag);
    this.acknowledged = acknowledgedBy(load.entries);
    this.unanswered = load.entries.length - this.acknowledged.length;
    [load.client] = this.site.cluster.clients() as [HoldfastClient];
    load.forget();
    load.mayLose = false;
    await load.settle();
    const losses = lossesOf(
      this.acknowledged,
      crashes.find(({ hadSlot }) => hadSlot(slot)),
    );
    expect(losses.forbidden).toEqual([]);
    const events = await this.settled();
    await expectStored(load, this.site.stored.redis);
    return {
      requests: load.entries.length,
      acknowledged: this.acknowledged.length,
      unanswered: this.unanswered,
      atRisk: losses.atRisk,
      lost: losses.lost,
      forbidden: losses.forbidden.length,
      unknown: load.unknown,
      expired: load.abandoned.length,
      rollovers: events.filter(isRollover).length,
      events: await this.delivered(events),
      silenceMs: longestSilenceMs(this.acknowledged),
    };
  }

  /** The tenant's events in the log, once every abandoned hold has expired and every period has ended. */
  private async settled(): Promise<LedgerEvent[]> {
    const { load, boundaries } = this;
    const events = await eventually(
      'what is due has happened',
      async () => {
        const state = await storedFor(load, this.site.stored.redis);
        const told = eventsFor(load, state);
        const isOver =
          load.abandoned.every(
            ({ answer }) => state.holds.get(answer.reservation_id)?.['st'] === 'EXPIRED',
          ) && told.filter(isRollover).length >= boundaries.size * BOUNDARIES;
        return isOver ? told : undefined;
      },
      PATIENCE_MS,
      POLL_MS,
    );
    const told = new Map([...boundaries.keys()].map((scope) => [scope, endsTold(events, scope)]));
    expect(told).toEqual(boundaries);
    return events;
  }

  /** How many events had to be delivered to the endpoint. Waits until they have been. */
  private async delivered(events: readonly LedgerEvent[]): Promise<number> {
    const partition = this.tag.slice(2, 4);
    const ids = events
      .filter(({ fields }) => EVENT_TYPES.includes(fields['ty'] as string))
      .map(({ id }) => eventIdOf({ partition, entryId: id }));
    const { deliveries, logged } = this.site;
    ids.forEach((id) => logged.add(id));
    await eventually(
      'the endpoint has received everything',
      () => deliveries.missing(ids).length === 0 || Promise.reject(new Error(deliveries.missing(ids).join())),
      PATIENCE_MS,
      POLL_MS,
    );
    expect(deliveries.outOfOrder(ids)).toEqual([]);
    return ids.length;
  }
}

const FAULTS: Readonly<Record<string, (cluster: ClusterSite, random: Random) => Promise<Crash[]>>> = {
  'An instance is killed': async (cluster, random) => {
    await cluster.kill(random() < 0.5 ? 0 : 1);
    return [];
  },
  'Both instances are killed': async (cluster) => {
    await Promise.all([cluster.kill(0), cluster.kill(1)]);
    return [];
  },
  'All masters give way to their replicas': async (cluster) => {
    await cluster.failOver();
    return [];
  },
  'A master is killed': async (cluster, random) => [await cluster.crash(Math.floor(random() * 3), 0)],
  'A master is cut off from its replica, and killed': async (cluster, random) => [
    await cluster.crash(Math.floor(random() * 3), 20 + random() * 400),
  ],
  'The same, and an instance is killed': async (cluster, random) => {
    const choice = Math.floor(random() * 3);
    const [crash] = await Promise.all([
      cluster.crash(choice, 20 + random() * 400),
      cluster.kill(random() < 0.5 ? 0 : 1),
    ]);
    return [crash];
  },
};

/** Every kind of fault once, in an order that the seed determines. */
export function shuffledFaults(random: Random): string[] {
  return Object.keys(FAULTS)
    .map((name) => ({ name, at: random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ name }) => name);
}

/** Puts new tenants under load, causes a fault in the middle, and accounts for everything afterwards. */
export async function playRound(site: SoakSite, fault: string, random: Random): Promise<RoundFigures> {
  const tenants = await Promise.all(Array.from({ length: TENANTS }, () => SoakTenant.make(site, random)));
  const running = Promise.all(tenants.map((tenant) => tenant.run()));
  const pause = (): Promise<void> => delay(1000 + random() * 2000);
  const faults = (async (): Promise<Crash[]> => {
    await pause();
    const crashes = await (FAULTS[fault] as (typeof FAULTS)[string])(site.cluster, random);
    await pause();
    return crashes;
  })().finally(() => tenants.forEach(({ load }) => load.stop()));
  // Await both, even if one fails.
  const ended = await Promise.allSettled([running, faults]);
  expect(ended.filter(({ status }) => status === 'rejected')).toEqual([]);
  await site.cluster.ready();
  const crashes = await faults;
  return sumOf(await Promise.all(tenants.map((tenant) => tenant.account(crashes))));
}

/** Verifies the whole ledger with all rounds in it, and returns the line that reports this. */
export async function verifyAll({ cluster }: SoakSite): Promise<string> {
  const [{ url }] = cluster.clients() as [HoldfastClient];
  const lines: string[] = [];
  const verified = await verifyLedger({
    baseUrl: url,
    adminKey: ADMIN_API_KEY,
    print: (line) => lines.push(line),
  });
  expect({ verified, lines: lines.slice(0, -1) }).toEqual({ verified: VERIFIED.sound, lines: [] });
  return lines.at(-1) ?? '';
}
