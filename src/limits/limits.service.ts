import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import {
  Refusal,
  TENANT_ID_PATTERN,
  TENANT_LIMITS,
  type TenantLimit,
  TenantLimitExceeded,
} from '../ledger/index.js';
import { ownedKey, RedisService, tagOfTenant, tenantKey } from '../redis/index.js';
import { LOGGER, type Logger, MetricsRegistry, type MetricsTable } from '../telemetry/index.js';
import { IsInt, Optional, type Origin } from '../wire/index.js';

/** Holds end all the time; stored bytes shrink only when the janitor trims what has passed its retention. */
const RETRY_AFTER_S: Partial<Record<TenantLimit, number>> = { live_reservations: 1, stored_bytes: 60 };

/** A tenant that uses at least four fifths of a limit, as the reconciler's script reports it. */
export type NearLimit = readonly [tenant: string, limit: TenantLimit, used: string, allowed: string];

/** What scripts answer that create something whose number per tenant is limited. */
export interface LimitExceeded {
  readonly status: 'LIMIT_EXCEEDED';
  readonly limit: string;
  readonly allowed: number;
  readonly used: number;
}

/** One log line names at most this many tenants. */
const MAX_LOGGED_TENANTS = 10;

const LIMIT_METRICS = {
  refusals: {
    name: 'holdfast_tenant_limit_refusals_total',
    help: 'Requests refused because their tenant had reached a limit, by limit.',
    labels: ['limit'],
  },
  repairs: {
    name: 'holdfast_live_counts_repaired_total',
    help: 'Wrong counts of live reservations that the reconciler corrected.',
  },
  near: {
    name: 'holdfast_tenants_near_limit',
    help: "Tenants that use at least four fifths of a limit, by limit, as of this instance's last full pass.",
    labels: ['limit'],
    acrossWorkers: 'max',
  },
} as const satisfies MetricsTable;

/**
 * The deployment's limits on what a tenant may own, and the refusal for exceeding one. The scripts decide: they also know a
 * tenant's own limits.
 */
@Injectable()
export class TenantLimits {
  /** 0 means no limit. */
  readonly deployment: Readonly<Record<TenantLimit, number>> = {
    live_reservations: this.config.tenantMaxLiveReservations,
    budgets: this.config.tenantMaxBudgets,
    policies: this.config.tenantMaxPolicies,
    api_keys: this.config.tenantMaxApiKeys,
    webhooks: this.config.tenantMaxWebhooks,
    stored_bytes: this.config.tenantMaxStoredBytes,
  };
  private readonly counts = this.metrics.of(LIMIT_METRICS);
  private known = new Set<string>();

  constructor(
    @Inject(CONFIG) private readonly config: HoldfastConfig,
    @Inject(MetricsRegistry) private readonly metrics: MetricsRegistry,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  countRepair(): void {
    this.counts.repairs.inc();
  }

  /** Reports what a full pass over all tenants found. A tenant is logged when it first comes near a limit, not on every pass. */
  reportNearLimits(near: readonly NearLimit[]): void {
    for (const limit of TENANT_LIMITS) {
      this.counts.near.set(near.filter(([, name]) => name === limit).length, { limit });
    }
    const current = new Map(
      near.map(([tenant, limit, used, allowed]) => [
        `${tenant} ${limit}`,
        { tenant, limit, used: Number(used), allowed: Number(allowed) },
      ]),
    );
    const added = [...current].filter(([name]) => !this.known.has(name)).map(([, state]) => state);
    this.known = new Set(current.keys());
    if (added.length > 0) {
      this.logger.warn(
        { tenants: added.slice(0, MAX_LOGGED_TENANTS), count: added.length },
        'tenants are near their limits',
      );
    }
  }

  /** The refusal for a script's `LIMIT_EXCEEDED`. Counts it. */
  refusal(reply: LimitExceeded): TenantLimitExceeded {
    const limit = reply.limit as TenantLimit;
    this.counts.refusals.inc({ limit });
    return new TenantLimitExceeded(limit, reply.allowed, reply.used, RETRY_AFTER_S[limit]);
  }
}

/** Keeps a script's arithmetic on limits exact: Lua's numbers are doubles. */
const HIGHEST = 1_000_000_000_000;

function Limit(): PropertyDecorator {
  return Optional(IsInt({ min: 0, max: HIGHEST }));
}

/** All limits that a tenant has of its own. 0 means no limit; a missing one falls back to the deployment's. */
export class TenantLimitsDto implements Partial<Record<TenantLimit, number>> {
  @Limit()
  live_reservations?: number;

  @Limit()
  budgets?: number;

  @Limit()
  policies?: number;

  @Limit()
  api_keys?: number;

  @Limit()
  webhooks?: number;

  @Limit()
  stored_bytes?: number;
}

export interface LimitState {
  /** 0 means no limit. */
  readonly limit: number;
  readonly source: 'deployment' | 'tenant';
  readonly used: number;
}

export interface LimitsOfTenant {
  readonly tenant_id: string;
  readonly limits: Readonly<Record<TenantLimit, LimitState>>;
}

/** Reads and replaces a tenant's limits on behalf of operators. */
@Injectable()
export class LimitsService {
  constructor(
    private readonly redis: RedisService,
    private readonly limits: TenantLimits,
  ) {}

  /** @throws Refusal TENANT_NOT_FOUND */
  async read(tenantId: string): Promise<LimitsOfTenant> {
    const reply = await this.redis.scripts.call('inspect_limits', this.keysOf(tenantId), { tenantId });
    if (reply.status === 'NOT_FOUND') {
      throw notFound();
    }
    const states = new Map<string, LimitState>();
    for (const { limit: name, used, ownLimit } of reply.limits) {
      const limit = ownLimit ?? this.limits.deployment[name as TenantLimit];
      states.set(name, { limit, source: ownLimit === undefined ? 'deployment' : 'tenant', used });
    }
    return { tenant_id: tenantId, limits: Object.fromEntries(states) as Record<TenantLimit, LimitState> };
  }

  /**
   * Replaces all of the tenant's own limits. What it already owns beyond a new limit stays.
   * @throws Refusal TENANT_NOT_FOUND
   */
  async replace(
    tenantId: string,
    own: TenantLimitsDto,
    operation: 'replaceTenantLimits' | 'removeTenantLimits',
    origin: Origin,
  ): Promise<LimitsOfTenant> {
    const pairs = TENANT_LIMITS.flatMap((name) => (own[name] === undefined ? [] : [name, own[name]]));
    const args = { tenantId, operation, ...origin, rest: pairs };
    const { status } = await this.redis.scripts.call('set_limits', this.keysOf(tenantId), args);
    if (status === 'NOT_FOUND') {
      throw notFound();
    }
    return this.read(tenantId);
  }

  private keysOf(tenantId: string): { tenant: string; owned: string } {
    if (!TENANT_ID_PATTERN.test(tenantId)) {
      throw notFound();
    }
    const tag = tagOfTenant(tenantId, this.redis.partitions);
    return { tenant: tenantKey(tag, tenantId), owned: ownedKey(tag, tenantId) };
  }
}

const notFound = (): Refusal => new Refusal('TENANT_NOT_FOUND', 'there is no such tenant');
