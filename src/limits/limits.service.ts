import { applyDecorators, Injectable } from '@nestjs/common';
import { IsInt, Max, Min } from 'class-validator';
import { Refusal, TENANT_ID_PATTERN, TENANT_LIMITS, type TenantLimit } from '../ledger/index.js';
import {
  ownedKey,
  partitionCode,
  partitionOfTenant,
  RedisService,
  tagOf,
  tenantKey,
} from '../redis/index.js';
import { Optional, type Origin } from '../wire/index.js';
import { TenantLimits } from './tenant-limits.js';

/** Keeps a script's arithmetic on limits exact: Lua's numbers are doubles. */
const HIGHEST = 1_000_000_000_000;

function Limit(): PropertyDecorator {
  return applyDecorators(Optional(), IsInt(), Min(0), Max(HIGHEST));
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
    const tag = tagOf(partitionCode(partitionOfTenant(tenantId, this.redis.partitions)));
    return { tenant: tenantKey(tag, tenantId), owned: ownedKey(tag, tenantId) };
  }
}

const notFound = (): Refusal => new Refusal('TENANT_NOT_FOUND', 'there is no such tenant');
