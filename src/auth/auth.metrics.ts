import { Injectable } from '@nestjs/common';
import { MetricsRegistry, type LabelledCounter } from '../metrics/index.js';

/** Why a request was not let through: the `reason` label of holdfast_auth_failures_total. */
export type AuthFailure =
  | 'missing_key'
  | 'malformed_key'
  | 'unknown_key'
  | 'revoked_key'
  | 'expired_key'
  | 'tenant_suspended'
  | 'missing_admin_key'
  | 'wrong_admin_key'
  | 'missing_permission';

@Injectable()
export class AuthMetrics {
  private readonly failures: LabelledCounter;
  private readonly hits: LabelledCounter;
  private readonly misses: LabelledCounter;

  constructor(metrics: MetricsRegistry) {
    this.failures = metrics.counter({
      name: 'holdfast_auth_failures_total',
      help: 'Requests that were refused for their key or its permissions.',
      labels: ['reason'],
    });
    this.hits = metrics.counter({
      name: 'holdfast_auth_cache_hits_total',
      help: 'API keys that were verified without a round trip to Redis.',
    });
    this.misses = metrics.counter({
      name: 'holdfast_auth_cache_misses_total',
      help: 'API keys that had to be looked up in Redis.',
    });
  }

  failed(reason: AuthFailure): void {
    this.failures.inc({ reason });
  }

  hit(): void {
    this.hits.inc();
  }

  missed(): void {
    this.misses.inc();
  }
}
