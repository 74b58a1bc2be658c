import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { countExpiry } from '../expiry/index.js';
import { PeriodPlans } from '../governance/index.js';
import { Records, RedisService, tenantKey } from '../redis/index.js';
import { MetricsRegistry } from '../telemetry/index.js';
import type { Origin } from '../wire/index.js';

/** What one run of the script may do: about two milliseconds of Redis' time. */
const LIMIT_OF_A_RUN = 40;
/** Longest work of one request. */
const TIME_BUDGET_MS = 20_000;
const DAY_MS = 86_400_000;

interface Target {
  readonly clockId: string;
  readonly toMs: number;
}

/**
 * Lets the time of tenants with a test clock pass. lua/clocks/advance_tenant.lua makes all transitions, so any number of instances may do
 * this at once, and if one dies, another continues where it ended.
 */
@Injectable()
export class ClockAdvance {
  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
    private readonly plans: PeriodPlans,
    private readonly metrics: MetricsRegistry,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
  ) {}

  /** @returns whether all tenants have reached the instant. */
  async passAll(tenants: readonly string[], target: Target, origin: Origin): Promise<boolean> {
    const deadline = performance.now() + TIME_BUDGET_MS;
    for (const tenant of tenants) {
      if (!(await this.pass(tenant, target, origin, deadline))) {
        return false;
      }
    }
    return true;
  }

  /** @returns whether the tenant has reached the instant, or does not have this clock. */
  private async pass(tenantId: string, target: Target, origin: Origin, deadline: number): Promise<boolean> {
    while (performance.now() < deadline) {
      if (await this.runOnce(tenantId, target, origin)) {
        return true;
      }
    }
    return false;
  }

  private async runOnce(tenantId: string, { clockId, toMs }: Target, origin: Origin): Promise<boolean> {
    const tag = this.records.tagOfTenant(tenantId);
    const reply = await this.redis.scripts.call(
      'advance_tenant',
      { tenant: tenantKey(tag, tenantId) },
      {
        tenantId,
        clockId,
        toMs,
        limit: LIMIT_OF_A_RUN,
        retentionMs: this.config.auditRetentionDays * DAY_MS,
        requestId: origin.requestId,
        trace: origin.trace,
      },
    );
    if (reply.status === 'NOT_FOUND') {
      return true;
    }
    for (const outcome of reply.outcomes) {
      countExpiry(this.metrics, 'clock', outcome);
    }
    for (const budget of reply.damaged) {
      this.plans.reportDamaged(budget);
    }
    for (const budget of reply.unplanned) {
      await this.plans.plan(tag, budget);
    }
    return !reply.more;
  }
}
