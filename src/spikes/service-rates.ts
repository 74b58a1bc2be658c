import { Inject, Injectable } from '@nestjs/common';
import { AuthAttempts } from '../auth/index.js';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { eventLogKey, rateToldKey, RedisService, SYSTEM_OWNER, tagOfTenant } from '../redis/index.js';
import { MetricsRegistry, RequestMetrics } from '../telemetry/index.js';
import { SubscriptionCache } from '../webhooks/index.js';
import { SPIKE_METRICS } from './spikes.metrics.js';
import { LEAST_EVENTS, runsOf, watchedBy } from './thresholds.js';

const LATENCY_WINDOW_S = 300;
/** Below this, a 99th percentile is the slowest request. */
const LEAST_REQUESTS = 100;
const AUTH_SPIKE = 'api_key.auth_failure_rate_spike';

/** The operations whose latency clients wait for, with their routes. */
const OPERATIONS: Readonly<Record<string, string>> = {
  decide: '/v1/decide',
  createReservation: '/v1/reservations',
  commitReservation: '/v1/reservations/:reservation_id/commit',
  releaseReservation: '/v1/reservations/:reservation_id/release',
  extendReservation: '/v1/reservations/:reservation_id/extend',
  createEvent: '/v1/events',
};

/**
 * Emits the events about failed authentications and slow operations. Requests only count in this process, as they do for metrics. Every
 * few seconds each instance adds its counts to those of all instances in Redis, in the run that compares them with the thresholds.
 */
@Injectable()
export class ServiceRates {
  private readonly tag: string = tagOfTenant(SYSTEM_OWNER, this.redis.partitions);
  private authCounted = { attempts: 0, failures: 0 };
  private readonly latencyCounted = new Map<string, readonly number[]>();

  constructor(
    private readonly redis: RedisService,
    private readonly subscriptions: SubscriptionCache,
    private readonly metrics: MetricsRegistry,
    private readonly auth: AuthAttempts,
    private readonly requests: RequestMetrics,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
  ) {}

  /** @throws StoreUnavailable, and then counts the same requests again at its next run. */
  async count(): Promise<void> {
    await this.countAuth();
    for (const operation of Object.keys(OPERATIONS)) {
      await this.countLatency(operation);
    }
  }

  private async countAuth(): Promise<void> {
    const { made: attempts, failed: failures } = this.auth;
    const counted = this.authCounted;
    if (failures === counted.failures && attempts === counted.attempts) {
      return;
    }
    await this.subscriptions.refresh([SYSTEM_OWNER]);
    const watched = watchedBy(this.subscriptions, SYSTEM_OWNER, AUTH_SPIKE, 'auth_failure_rate_threshold');
    for (const run of runsOf(watched)) {
      const { emitted } = await this.redis.scripts.call(
        'check_auth_rate',
        { eventLog: eventLogKey(this.tag) },
        {
          attempts: attempts - this.authCounted.attempts,
          failures: failures - this.authCounted.failures,
          least: LEAST_EVENTS,
          rest: run.flatMap(({ threshold, windowS }) => [String(threshold), String(windowS)]),
        },
      );
      this.authCounted = { attempts, failures };
      this.metrics.of(SPIKE_METRICS).emitted.inc({ event_type: AUTH_SPIKE }, emitted.length);
    }
  }

  private async countLatency(operation: string): Promise<void> {
    const threshold = this.config.highLatencyMs;
    const buckets = this.requests.bucketsOf('POST', OPERATIONS[operation] as string);
    const counted = this.latencyCounted.get(operation);
    const gained = buckets.map(({ boundMs, requests }, index) => ({
      boundMs,
      requests: requests - (counted?.[index] ?? 0),
    }));
    if (threshold === 0 || gained.every(({ requests }) => requests === 0)) {
      return;
    }
    const { status } = await this.redis.scripts.call(
      'check_latency',
      {
        eventLog: eventLogKey(this.tag),
        announced: rateToldKey(this.tag, SYSTEM_OWNER, `latency:${operation}`),
      },
      {
        operation,
        thresholdMs: threshold,
        windowS: LATENCY_WINDOW_S,
        least: LEAST_REQUESTS,
        rest: gained.flatMap(({ boundMs, requests }) => [boundMs?.toString() ?? '', requests.toString()]),
      },
    );
    this.latencyCounted.set(
      operation,
      buckets.map(({ requests }) => requests),
    );
    if (status === 'EMITTED') {
      this.metrics.of(SPIKE_METRICS).emitted.inc({ event_type: 'system.high_latency' });
    }
  }
}
