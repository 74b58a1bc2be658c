import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { TenantLimitExceeded, type TenantLimit } from '../ledger/index.js';
import { MetricsRegistry, type LabelledCounter } from '../metrics/index.js';
import type { Reply } from '../redis/index.js';

/** Holds come and go all the time; stored bytes go with their retention, once a run of the janitor. */
const RETRY_AFTER_S: Partial<Record<TenantLimit, number>> = { live_reservations: 1, stored_bytes: 60 };

/** The deployment's limits on what a tenant may own, and the refusals that come of them. Scripts decide, and know a tenant's own limits. */
@Injectable()
export class TenantLimits {
  /** 0 is no limit. */
  readonly deployment: Readonly<Record<TenantLimit, number>>;
  private readonly refusals: LabelledCounter;

  constructor(@Inject(CONFIG) config: HoldfastConfig, @Inject(MetricsRegistry) metrics: MetricsRegistry) {
    this.deployment = {
      live_reservations: config.tenantMaxLiveReservations,
      budgets: config.tenantMaxBudgets,
      policies: config.tenantMaxPolicies,
      api_keys: config.tenantMaxApiKeys,
      webhooks: config.tenantMaxWebhooks,
      stored_bytes: config.tenantMaxStoredBytes,
    };
    this.refusals = metrics.counter({
      name: 'holdfast_tenant_limit_refusals_total',
      help: 'Requests that were refused because their tenant owns as much as it may, by limit.',
      labels: ['limit'],
    });
  }

  /** The refusal of a script that answered LIMIT_EXCEEDED limit allowed used; it is counted here. */
  refusal([, limit, allowed, used]: Reply): TenantLimitExceeded {
    this.refusals.inc({ limit });
    return new TenantLimitExceeded(limit as TenantLimit, Number(allowed), Number(used), RETRY_AFTER_S[limit as TenantLimit]);
  }
}
