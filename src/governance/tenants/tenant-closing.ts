import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { ExpiryMetrics } from '../../expiry/index.js';
import { keyRevokedChannel, Records, RedisService, type ScriptAnswer, tenantKey } from '../../redis/index.js';
import { type LabelledCounter, LOGGER, type Logger, MetricsRegistry } from '../../telemetry/index.js';

/** Progress of closing tenants, under the names that existing dashboards use. */
@Injectable()
export class TenantClosingMetrics {
  private readonly incompletes: LabelledCounter;
  private readonly errors: LabelledCounter;

  constructor(metrics: MetricsRegistry) {
    this.incompletes = metrics.counter({
      name: 'cycles_admin_tenant_close_reconcile_incomplete_total',
      help: 'Runs that left a closed tenant with resources not closed yet.',
    });
    this.errors = metrics.counter({
      name: 'cycles_admin_tenant_close_reconcile_errors_total',
      help: 'Runs over the closing tenants that failed.',
    });
  }

  incomplete(): void {
    this.incompletes.inc();
  }

  failed(): void {
    this.errors.inc();
  }
}

/** Entries of the deadline index that a step examines: about three milliseconds of Redis' time when all are the tenant's. */
const HOLDS_A_STEP = 100;
/** Budgets, subscriptions or keys that a step closes. Each one gets an event and an audit row. */
const OWNED_A_STEP = 25;
const DAY_MS = 86_400_000;

/** A resource that could not be closed because its record is corrupt. */
export interface FailedResource {
  readonly resource_type: string;
  readonly resource_id: string;
}

export interface ClosingReport {
  /** False when time ran out or something failed. The next run starts over and skips what is closed. */
  readonly complete: boolean;
  readonly failed: readonly FailedResource[];
}

/**
 * Closes everything that a closed tenant owns, in steps of lua/governance/close_tenant.lua. The tenant's status alone already blocks
 * every operation, so the steps may run at any time, in any instance, and even concurrently.
 */
@Injectable()
export class TenantClosing {
  private readonly retentionMs: number;

  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
    private readonly expiry: ExpiryMetrics,
    private readonly metrics: TenantClosingMetrics,
    @Inject(CONFIG) config: HoldfastConfig,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {
    this.retentionMs = config.auditRetentionDays * DAY_MS;
  }

  /** @throws StoreUnavailable */
  async closeOwned(tenantId: string, withinMs: number): Promise<ClosingReport> {
    const deadline = performance.now() + withinMs;
    const key = tenantKey(this.records.tagOfTenant(tenantId), tenantId);
    const failed: FailedResource[] = [];
    let [phase, cursor] = ['holds', ''];
    for (;;) {
      const step = await this.redis.scripts.call(
        'close_tenant',
        { tenant: key },
        {
          tenantId,
          phase,
          cursor,
          limit: phase === 'holds' || phase === 'unswept' ? HOLDS_A_STEP : OWNED_A_STEP,
          retentionMs: this.retentionMs,
          channel: keyRevokedChannel(),
        },
      );
      if (step.status !== 'STEP') {
        return { complete: true, failed };
      }
      this.count(step, failed);
      [phase, cursor] = [step.nextPhase, step.nextCursor ?? ''];
      if ((phase === 'end' && failed.length > 0) || performance.now() > deadline) {
        return this.incomplete(tenantId, failed);
      }
    }
  }

  private count({ outcomes, nowMs }: ScriptAnswer<'close_tenant', 'STEP'>, failed: FailedResource[]): void {
    for (const outcome of outcomes) {
      if (outcome.word === 'FAILED') {
        failed.push({ resource_type: outcome.detail ?? '', resource_id: outcome.secondDetail ?? '' });
      } else {
        this.expiry.outcome('access', outcome, nowMs);
      }
    }
  }

  private incomplete(tenantId: string, failed: readonly FailedResource[]): ClosingReport {
    this.metrics.incomplete();
    if (failed.length > 0) {
      this.logger.error({ tenant: tenantId, failed }, 'a closed tenant owns records that cannot be closed');
    }
    return { complete: false, failed };
  }
}
