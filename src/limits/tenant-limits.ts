import { Inject, Injectable, Module } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { TENANT_LIMITS, type TenantLimit, TenantLimitExceeded } from '../ledger/index.js';
import type { Reply } from '../redis/index.js';
import {
  type LabelledCounter,
  type LabelledGauge,
  LOGGER,
  type Logger,
  MetricsModule,
  MetricsRegistry,
} from '../telemetry/index.js';

/** Holds come and go all the time; stored bytes go with their retention, once a run of the janitor. */
const RETRY_AFTER_S: Partial<Record<TenantLimit, number>> = { live_reservations: 1, stored_bytes: 60 };

/** A tenant that uses four fifths of a limit or more, as the reconciler's script tells of it. */
export type NearLimit = readonly [tenant: string, limit: TenantLimit, used: string, allowed: string];

/** Tenants that one line of the log names. */
const NAMED = 10;

/** The deployment's limits on what a tenant may own, and the refusals that come of them. Scripts decide, and know a tenant's own limits. */
@Injectable()
export class TenantLimits {
  /** 0 is no limit. */
  readonly deployment: Readonly<Record<TenantLimit, number>>;
  private readonly refusals: LabelledCounter;
  private readonly repairs: LabelledCounter;
  private readonly near: LabelledGauge;
  private known = new Set<string>();

  constructor(
    @Inject(CONFIG) config: HoldfastConfig,
    @Inject(MetricsRegistry) metrics: MetricsRegistry,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {
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
    this.repairs = metrics.counter({
      name: 'holdfast_live_counts_repaired_total',
      help: 'Counts of live reservations of a tenant that were wrong and put right.',
    });
    this.near = metrics.gauge({
      name: 'holdfast_tenants_near_limit',
      help: 'Tenants that use four fifths of a limit or more, by limit, as of the last whole walk of this instance.',
      labels: ['limit'],
    });
  }

  recounted(): void {
    this.repairs.inc();
  }

  /** What a whole walk through all tenants has found. A tenant is logged when it comes near a limit, not on every walk. */
  walked(near: readonly NearLimit[]): void {
    for (const limit of TENANT_LIMITS) {
      this.near.set(near.filter(([, name]) => name === limit).length, { limit });
    }
    const places = new Map(
      near.map(([tenant, limit, used, allowed]) => [
        `${tenant} ${limit}`,
        { tenant, limit, used: Number(used), allowed: Number(allowed) },
      ]),
    );
    const fresh = [...places].filter(([place]) => !this.known.has(place)).map(([, state]) => state);
    this.known = new Set(places.keys());
    if (fresh.length > 0) {
      this.logger.warn(
        { tenants: fresh.slice(0, NAMED), count: fresh.length },
        'tenants came near their limits',
      );
    }
  }

  /** The refusal of a script that answered LIMIT_EXCEEDED limit allowed used; it is counted here. */
  refusal([, limit, allowed, used]: Reply): TenantLimitExceeded {
    this.refusals.inc({ limit });
    return new TenantLimitExceeded(
      limit as TenantLimit,
      Number(allowed),
      Number(used),
      RETRY_AFTER_S[limit as TenantLimit],
    );
  }
}

@Module({ imports: [MetricsModule], providers: [TenantLimits], exports: [TenantLimits] })
export class TenantLimitsModule {}
