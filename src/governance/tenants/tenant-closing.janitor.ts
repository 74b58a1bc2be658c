import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { closingKey, partitionCode, RedisService, tagOf, toStoreError } from '../../redis/index.js';
import { LOGGER, type Logger } from '../../telemetry/index.js';
import { type Turn, Worker } from '../../worker/index.js';
import { TenantClosing, TenantClosingMetrics } from './tenant-closing.js';

/** With the time that one run takes, this bounds how long after a crash an interrupted closing goes on. */
const INTERVAL_MS = 5000;
/** The longest that one tenant may keep the others waiting; what is left of it is the next run's. */
const TENANT_BUDGET_MS = 2000;
/** Tenants that one run takes from a partition, roughly. */
const TENANTS_A_RUN = 100;

/** Finishes the closings that nobody finished: their instance died, or there was more to do than a request may take. */
@Injectable()
export class TenantClosingJanitor implements OnModuleInit {
  /** By partition, where in its closing tenants the next run begins. */
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

  /** One tenant's failure leaves the others alone. */
  private async closeOne(tenantId: string): Promise<void> {
    try {
      await this.closing.closeOwned(tenantId, TENANT_BUDGET_MS);
    } catch (error) {
      this.metrics.failed();
      this.logger.warn(
        { err: error, tenant: tenantId },
        "a tenant's closing could not be carried on; it is tried again",
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

  /** Some of a partition's, going on where the run before ended. */
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
