import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { closingKey, partitionCode, RedisService, tagOf, toStoreError } from '../../redis/index.js';
import { LOGGER, type Logger } from '../../telemetry/index.js';
import { type Turn, Worker } from '../../worker/index.js';
import { TenantClosing, TenantClosingMetrics } from './tenant-closing.js';

/** Together with the duration of a run, this bounds when an interrupted closing continues after a crash. */
const INTERVAL_MS = 5000;
/** The most time that a run spends on one tenant. The rest is left to the next run, so that other tenants do not wait. */
const TENANT_BUDGET_MS = 2000;
/** The approximate number of tenants that one run takes from a partition. */
const TENANTS_A_RUN = 100;

/** Finishes interrupted closings: their instance died, or they took longer than a request may. */
@Injectable()
export class TenantClosingJanitor implements OnModuleInit {
  /** By partition: the cursor in its closing tenants where the next run starts. */
  private readonly places = new Map<string, string>();

  constructor(
    private readonly redis: RedisService,
    private readonly closing: TenantClosing,
    private readonly metrics: TenantClosingMetrics,
    private readonly worker: Worker,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  onModuleInit(): void {
    this.worker.addRegular({
      name: 'tenant_closing',
      role: 'janitor',
      intervalMs: INTERVAL_MS,
      startsInMs: 0,
      run: (turn) => this.closeAll(turn),
    });
  }

  private async closeAll(turn: Turn): Promise<void> {
    const tenantIds = await this.closingTenants().catch((error: unknown) => {
      this.metrics.failed();
      throw error;
    });
    for (const tenantId of tenantIds) {
      if (!turn.goesOn()) {
        return;
      }
      await this.closeOne(tenantId);
    }
  }

  /** The failure of one tenant does not affect the others. */
  private async closeOne(tenantId: string): Promise<void> {
    try {
      await this.closing.closeOwned(tenantId, TENANT_BUDGET_MS);
    } catch (error) {
      this.metrics.failed();
      this.logger.warn(
        { err: error, tenant: tenantId },
        'the closing of a tenant failed; it will be retried',
      );
    }
  }

  private async closingTenants(): Promise<string[]> {
    const partitions = Array.from({ length: this.redis.partitions }, (_, partition) =>
      tagOf(partitionCode(partition)),
    );
    const found = await Promise.all(partitions.map((tag) => this.closingTenantsOf(tag))).catch(
      (error: unknown) => {
        throw toStoreError(error);
      },
    );
    return found.flat();
  }

  /** Some of a partition's closing tenants, continuing where the previous run ended. */
  private async closingTenantsOf(tag: string): Promise<string[]> {
    const [next, entries] = await this.redis.client.hscan(
      closingKey(tag),
      this.places.get(tag) ?? '0',
      'COUNT',
      TENANTS_A_RUN,
    );
    this.places.set(tag, next);
    return entries.filter((_entry, index) => index % 2 === 0);
  }
}
