import { Injectable } from '@nestjs/common';
import { TENANT_ID_PATTERN, type Origin } from '../governance/index.js';
import { Refusal, TENANT_LIMITS, type TenantLimit } from '../ledger/index.js';
import {
  ownedKey,
  partitionCode,
  partitionOfTenant,
  RedisService,
  tagOf,
  tenantKey,
} from '../redis/index.js';
import type { TenantLimitsDto } from './limits.dto.js';
import { TenantLimits } from './tenant-limits.js';

export interface LimitState {
  /** 0 is no limit. */
  readonly limit: number;
  readonly source: 'deployment' | 'tenant';
  readonly used: number;
}

export interface LimitsOfTenant {
  readonly tenant_id: string;
  readonly limits: Readonly<Record<TenantLimit, LimitState>>;
}

/** What operators see and change of a tenant's limits. */
@Injectable()
export class LimitsService {
  constructor(
    private readonly redis: RedisService,
    private readonly limits: TenantLimits,
  ) {}

  /** @throws Refusal TENANT_NOT_FOUND */
  async read(tenantId: string): Promise<LimitsOfTenant> {
    const [word, ...parts] = await this.redis.scripts.run('inspect_limits', this.keysOf(tenantId), [
      tenantId,
    ]);
    if (word === 'NOT_FOUND') {
      throw notFound();
    }
    const states = new Map<string, LimitState>();
    for (let index = 0; index < parts.length; index += 3) {
      const [name, used, own] = parts.slice(index, index + 3) as [TenantLimit, string, string];
      const limit = own === '' ? this.limits.deployment[name] : Number(own);
      states.set(name, { limit, source: own === '' ? 'deployment' : 'tenant', used: Number(used) });
    }
    return { tenant_id: tenantId, limits: Object.fromEntries(states) as Record<TenantLimit, LimitState> };
  }

  /**
   * Gives the tenant these limits of its own and no others. What it owns beyond them stays.
   * @throws Refusal TENANT_NOT_FOUND
   */
  async replace(
    tenantId: string,
    own: TenantLimitsDto,
    operation: 'replaceTenantLimits' | 'removeTenantLimits',
    origin: Origin,
  ): Promise<LimitsOfTenant> {
    const pairs = TENANT_LIMITS.flatMap((name) => (own[name] === undefined ? [] : [name, own[name]]));
    const [word] = await this.redis.scripts.run('set_limits', this.keysOf(tenantId), [
      tenantId,
      operation,
      ...origin,
      ...pairs,
    ]);
    if (word === 'NOT_FOUND') {
      throw notFound();
    }
    return this.read(tenantId);
  }

  private keysOf(tenantId: string): [string, string] {
    if (!TENANT_ID_PATTERN.test(tenantId)) {
      throw notFound();
    }
    const tag = tagOf(partitionCode(partitionOfTenant(tenantId, this.redis.partitions)));
    return [tenantKey(tag, tenantId), ownedKey(tag, tenantId)];
  }
}

const notFound = (): Refusal => new Refusal('TENANT_NOT_FOUND', 'there is no such tenant');
