import {
  type BeforeApplicationShutdown,
  Inject,
  Injectable,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import { SchedulerRegistry } from '@nestjs/schedule';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { closingKey, partitionCode, RedisService, tagOf, toStoreError } from '../../redis/index.js';
import { LOGGER, type Logger } from '../../telemetry/index.js';
import { TenantClosing, TenantClosingMetrics } from './tenant-closing.js';

const JOB = 'tenant_closing';
/** With the time that one run takes, this bounds how long after a crash an interrupted closing goes on. */
const INTERVAL_MS = 5000;
/** Instances start together; spread out, they find each other's work done. */
const JITTER_MS = 500;
/** The longest that one tenant may keep the others waiting; what is left of it is the next run's. */
const TENANT_BUDGET_MS = 2000;
/** Tenants that one run takes from a partition, roughly. */
const TENANTS_A_RUN = 100;

/**
 * Finishes the closings that nobody finished: their instance died, or there was more to do than a request may take. Runs
 * never overlap, are bounded by count and time, and end before shutdown goes on.
 */
@Injectable()
export class TenantClosingJanitor implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private running: Promise<void> = Promise.resolve();
  private stopped = false;
  /** By partition, where in its closing tenants the next run begins. */
  private readonly places = new Map<string, string>();

  constructor(
    private readonly redis: RedisService,
    private readonly closing: TenantClosing,
    private readonly metrics: TenantClosingMetrics,
    private readonly scheduler: SchedulerRegistry,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  onApplicationBootstrap(): void {
    if (this.config.roles.has('janitor')) {
      this.schedule(0);
    }
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.stopped = true;
    if (this.scheduler.doesExist('timeout', JOB)) {
      this.scheduler.deleteTimeout(JOB);
    }
    await this.running;
  }

  private schedule(delayMs: number): void {
    if (this.stopped) {
      return;
    }
    this.scheduler.addTimeout(
      JOB,
      setTimeout(() => {
        this.scheduler.deleteTimeout(JOB);
        this.running = this.run().finally(() => {
          this.schedule(INTERVAL_MS + Math.random() * JITTER_MS);
        });
      }, delayMs),
    );
  }

  /** Never rejects. */
  private async run(): Promise<void> {
    try {
      for (const tenantId of await this.closingTenants()) {
        if (this.stopped) {
          return;
        }
        await this.closeOne(tenantId);
      }
    } catch (error) {
      this.metrics.failed();
      this.logger.warn({ err: error }, 'the closing tenants could not be looked for; it is tried again');
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
