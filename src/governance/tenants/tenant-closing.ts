import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { countExpiry } from '../../expiry/index.js';
import {
  closingKey,
  keyRevokedChannel,
  orStoreError,
  Records,
  RedisService,
  type ScriptAnswer,
  StoreUnavailable,
  tenantKey,
} from '../../redis/index.js';
import { LOGGER, type Logger, MetricsRegistry } from '../../telemetry/index.js';
import { type LeaveOut, PartitionJobs, type PartitionRun } from '../../worker/index.js';
import { GOVERNANCE_METRICS } from '../governance.metrics.js';

/** Entries of the deadline index that a step examines: about three milliseconds of Redis' time when all are the tenant's. */
const HOLDS_A_STEP = 100;
/** Budgets, subscriptions or keys that a step closes. Each one gets an event and an audit row. */
const OWNED_A_STEP = 25;

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

export const NOT_CLOSABLE =
  'the tenant is closed, but some of its resources could not be closed; Holdfast keeps trying';

/**
 * Closes everything that a closed tenant owns, in steps of lua/governance/close_tenant.lua. The tenant's status alone already blocks
 * every operation, so the steps may run at any time, in any instance, and even concurrently.
 */
@Injectable()
export class TenantClosing {
  private readonly retentionMs: number = this.config.auditRetentionMs;

  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
    private readonly metrics: MetricsRegistry,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

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
        countExpiry(this.metrics, 'access', outcome, nowMs);
      }
    }
  }

  private incomplete(tenantId: string, failed: readonly FailedResource[]): ClosingReport {
    this.metrics.of(GOVERNANCE_METRICS).closingsIncomplete.inc();
    if (failed.length > 0) {
      this.logger.error({ tenant: tenantId, failed }, 'a closed tenant owns records that cannot be closed');
    }
    return { complete: false, failed };
  }
}

/** Together with the duration of a run, this bounds when an interrupted closing continues after a crash. */
const INTERVAL_MS = 5000;
/** The most time that a visit spends on one tenant. The rest is left to the next run, so that other tenants do not wait. */
const TENANT_BUDGET_MS = 2000;
/** Longest run. The next one goes on where it ended. */
const RUN_BUDGET_MS = 60_000;
/** The approximate number of tenants that are read from a partition at a time. */
const TENANTS_A_SCAN = 100;

/** Tenants of a partition that are still to be looked at, and the cursor behind them. */
interface Place {
  readonly tenantIds: readonly string[];
  readonly cursor: string;
}

/** Finishes interrupted closings: their instance died, or they took longer than a request may. */
@Injectable()
export class TenantClosingJanitor {
  readonly closeAll: PartitionRun;

  constructor(
    private readonly redis: RedisService,
    private readonly closing: TenantClosing,
    private readonly metrics: MetricsRegistry,
    jobs: PartitionJobs,
  ) {
    this.closeAll = jobs.add<Place>({
      name: 'tenant_closing',
      intervalMs: INTERVAL_MS,
      startsInMs: 0,
      budgetMs: RUN_BUDGET_MS,
      undone: 'not closed',
      visit: async (tag, place, { leaveOut }) => {
        try {
          return await this.visit(tag, place, leaveOut);
        } catch (error) {
          this.metrics.of(GOVERNANCE_METRICS).closingsFailed.inc();
          throw error;
        }
      },
    });
  }

  /** Works on one tenant of the partition. */
  private async visit(tag: string, place: Place | undefined, leaveOut: LeaveOut): Promise<Place | undefined> {
    const {
      tenantIds: [tenantId, ...tenantIds],
      cursor,
    } = place === undefined || place.tenantIds.length === 0 ? await this.scan(tag, place?.cursor) : place;
    if (tenantId !== undefined) {
      await this.closeOne(tenantId, leaveOut);
    }
    return tenantIds.length > 0 || cursor !== '0' ? { tenantIds, cursor } : undefined;
  }

  /** The failure of one tenant does not affect the others. @throws StoreUnavailable */
  private async closeOne(tenantId: string, leaveOut: LeaveOut): Promise<void> {
    try {
      await this.closing.closeOwned(tenantId, TENANT_BUDGET_MS);
    } catch (error) {
      if (error instanceof StoreUnavailable) {
        throw error;
      }
      this.metrics.of(GOVERNANCE_METRICS).closingsFailed.inc();
      leaveOut(`tenant ${tenantId}`, error);
    }
  }

  private async scan(tag: string, from = '0'): Promise<Place> {
    const [cursor, entries] = await orStoreError(
      this.redis.client.hscan(closingKey(tag), from, 'COUNT', TENANTS_A_SCAN),
    );
    return { tenantIds: entries.filter((_entry, index) => index % 2 === 0), cursor };
  }
}
