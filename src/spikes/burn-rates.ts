import { Injectable } from '@nestjs/common';
import {
  budgetIndexKey,
  burnRatesCheckedKey,
  eventLogKey,
  RedisService,
  tenantIndexKey,
} from '../redis/index.js';
import { SubscriptionCache } from '../webhooks/index.js';
import { PartitionJobs, type PartitionRun } from '../worker/index.js';
import { SPIKE_METRICS } from './spikes.metrics.js';
import { runsOf, watchedBy, type Watched } from './thresholds.js';
import { MetricsRegistry } from '../telemetry/index.js';

const ANOMALY = 'budget.burn_rate_anomaly';
const INTERVAL_MS = 15_000;
/** Tenants that one script names: a fraction of a millisecond. */
const TENANTS_A_RUN = 250;
/** Pairs of a budget and a window that one script judges: one to two milliseconds. */
const JUDGED_A_RUN = 100;

interface Place {
  readonly tag: string;
  /** Tenants that are still to be checked, and the budget after which the first of them continues. */
  tenants: readonly string[];
  budget: string;
  /** The tenant after which the next ones are named; undefined when there are none. */
  after: string | undefined;
}

/**
 * Emits the events about budgets that are spent several times as fast as before. Looking costs in proportion to the budgets, so only
 * those that a subscription asks about are looked at: those of a tenant with such a subscription, or all of them if operators have one.
 */
@Injectable()
export class BurnRates {
  readonly check: PartitionRun;

  constructor(
    private readonly redis: RedisService,
    private readonly subscriptions: SubscriptionCache,
    private readonly metrics: MetricsRegistry,
    jobs: PartitionJobs,
  ) {
    this.check = jobs.add<Place>({
      name: 'burn_rates',
      intervalMs: INTERVAL_MS,
      undone: 'not checked',
      visit: (tag, place) => this.checkPart(tag, place),
      cut: () => metrics.of(SPIKE_METRICS).cuts.inc(),
    });
  }

  /** Checks a few budgets, or finds the next tenants. Returns where to go on in the partition. */
  private async checkPart(
    tag: string,
    place: Place = { tag, tenants: [], budget: '', after: '' },
  ): Promise<Place | undefined> {
    const [tenant, ...others] = place.tenants;
    if (tenant !== undefined) {
      const next = await this.checkBudgets(tag, tenant, place.budget);
      Object.assign(place, next === undefined ? { tenants: others, budget: '' } : { budget: next });
    } else if (place.after !== undefined) {
      await this.findTenants(place, place.after);
    }
    return place.tenants.length > 0 || place.after !== undefined ? place : undefined;
  }

  private async findTenants(place: Place, after: string): Promise<void> {
    const { next, tenants } = await this.redis.queries.call(
      'burn_rate_tenants',
      { tenantIndex: tenantIndexKey(place.tag) },
      { after, limit: TENANTS_A_RUN },
    );
    const owners = tenants.filter(({ hasWebhooks }) => hasWebhooks).map(({ tenant }) => tenant);
    await this.subscriptions.refresh(owners);
    place.tenants = tenants
      .map(({ tenant }) => tenant)
      .filter((tenant) => this.subscriptions.selecting(tenant, ANOMALY).length > 0);
    place.after = next;
  }

  /** @returns the budget after which to continue, or undefined at the end */
  private async checkBudgets(tag: string, tenant: string, after: string): Promise<string | undefined> {
    const windows = this.windowsOf(tenant);
    const limit = Math.max(1, Math.floor(JUDGED_A_RUN / Math.min(20, windows.length)));
    const runs = runsOf(windows);
    let next: string | undefined;
    for (const [index, run] of runs.entries()) {
      const isLast = index === runs.length - 1;
      const reply = await this.redis.scripts.call(
        'check_burn_rates',
        {
          eventLog: eventLogKey(tag),
          budgetIndex: budgetIndexKey(tag, tenant),
          checked: burnRatesCheckedKey(tag, tenant),
        },
        {
          tenant,
          after,
          limit,
          restMs: isLast ? Math.min(...windows.map(({ windowS }) => windowS)) * 1000 : '',
          rest: run.flatMap(({ windowS, threshold }) => [String(windowS), String(threshold)]),
        },
      );
      if (reply.status === 'RESTS') {
        return undefined;
      }
      this.metrics.of(SPIKE_METRICS).emitted.inc({ event_type: ANOMALY }, reply.emitted);
      next = reply.next;
    }
    return next;
  }

  /** Each window with the lowest multiplier. Of the events, each subscription receives those that reach its own. */
  private windowsOf(tenant: string): readonly Watched[] {
    const lowest = new Map<number, Watched>();
    for (const watched of watchedBy(
      this.subscriptions,
      tenant,
      ANOMALY,
      'burn_rate_multiplier',
      'burn_rate_window_seconds',
    )) {
      const known = lowest.get(watched.windowS);
      lowest.set(
        watched.windowS,
        known === undefined || watched.threshold < known.threshold ? watched : known,
      );
    }
    return [...lowest.values()];
  }
}
