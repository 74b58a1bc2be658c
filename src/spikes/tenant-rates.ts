import { Injectable } from '@nestjs/common';
import { DAY_MS } from '../ledger/index.js';
import {
  eventLogKey,
  ratesCursorKey,
  ratesDueKey,
  RedisService,
  reservationIndexKey,
} from '../redis/index.js';
import { SubscriptionCache } from '../webhooks/index.js';
import { PartitionJobs, type PartitionRun } from '../worker/index.js';
import { SPIKE_METRICS } from './spikes.metrics.js';
import { LEAST_EVENTS, runsOf, watchedBy } from './thresholds.js';
import { MetricsRegistry } from '../telemetry/index.js';

const INTERVAL_MS = 10_000;
/** Entries of a log that one script examines: one to two milliseconds of Redis' time. */
const EXAMINED_A_RUN = 250;
/** Tenants that are compared with their thresholds between two such scripts. */
const TENANTS_A_RUN = 20;
const LONGEST_WINDOW_MS = DAY_MS;

const METRICS = [
  ['denial_rate', 'reservation.denial_rate_spike', 'denial_rate_threshold'],
  ['expiry_rate', 'reservation.expiry_rate_spike', 'expiry_rate_threshold'],
] as const;

/**
 * Emits the events about the rates at which a tenant's reservations are denied and expire. Requests do nothing for it: the event log
 * has every denial and expiration, and the index of a tenant's reservations says how many were made. Redis counts what the log has
 * gained and remembers what it has emitted, so any number of instances may do this, and together they do it once.
 */
@Injectable()
export class TenantRates {
  readonly count: PartitionRun;

  constructor(
    private readonly redis: RedisService,
    private readonly subscriptions: SubscriptionCache,
    private readonly metrics: MetricsRegistry,
    jobs: PartitionJobs,
  ) {
    this.count = jobs.add({
      name: 'tenant_rates',
      intervalMs: INTERVAL_MS,
      undone: 'not checked',
      visit: (tag) => this.countPartition(tag),
      cut: () => metrics.of(SPIKE_METRICS).cuts.inc(),
    });
  }

  private async countPartition(tag: string): Promise<boolean> {
    const { more, counted, tenants } = await this.redis.scripts.call(
      'count_rates',
      { eventLog: eventLogKey(tag), ratesCursor: ratesCursorKey(tag), ratesDue: ratesDueKey(tag) },
      { examine: EXAMINED_A_RUN, longestMs: LONGEST_WINDOW_MS, due: TENANTS_A_RUN },
    );
    this.metrics.of(SPIKE_METRICS).counted.inc(counted);
    const ids = tenants.map(({ tenant }) => tenant);
    if (ids.length > 0) {
      await this.subscriptions.refresh(ids);
      for (const id of ids) {
        await this.compare(tag, id);
      }
    }
    return more || ids.length === TENANTS_A_RUN;
  }

  private async compare(tag: string, tenant: string): Promise<void> {
    const watched = METRICS.flatMap(([metric, eventType, threshold]) =>
      watchedBy(this.subscriptions, tenant, eventType, threshold).map((one) => [
        metric,
        String(one.threshold),
        String(one.windowS),
      ]),
    );
    for (const run of runsOf(watched)) {
      const { emitted } = await this.redis.scripts.call(
        'check_rates',
        {
          eventLog: eventLogKey(tag),
          reservationIndex: reservationIndexKey(tag, tenant),
          ratesDue: ratesDueKey(tag),
        },
        { tenant, least: LEAST_EVENTS, rest: run.flat() },
      );
      for (const { metric } of emitted) {
        this.metrics.of(SPIKE_METRICS).emitted.inc({ event_type: `reservation.${metric}_spike` });
      }
    }
  }
}
