import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import {
  dispatchInstancesKey,
  dispatchLeaseKey,
  dispatchReportsKey,
  RedisService,
  StoreUnavailable,
} from '../../redis/index.js';
import { LOGGER, type Logger, MetricsRegistry } from '../../telemetry/index.js';
import { countLeases, type LeaseReply, MAINTENANCE_METRICS, PartitionLeases } from '../../worker/index.js';
import { WEBHOOK_METRICS } from '../webhooks.metrics.js';
import { DispatchPartition, LeaseLost } from './dispatch-partition.js';

export const WEBHOOK_DISPATCH = 'webhook_dispatch';
const LONGEST_BEAT_MS = 1000;

/**
 * Decides which partitions this instance dispatches. The scripts that read and queue check the lease themselves, so two instances that both
 * believe to hold it cannot reorder events. A delivery in flight while its partition changes hands may be repeated.
 */
@Injectable()
export class DispatchLeases extends PartitionLeases<DispatchPartition> {
  /** Held or not: attempts may still be in flight in those that were given up. */
  readonly all: readonly DispatchPartition[];

  constructor(
    redis: RedisService,
    metrics: MetricsRegistry,
    @Inject(CONFIG) { webhookLeaseMs: leaseMs }: HoldfastConfig,
    @Inject(LOGGER) private readonly log: Logger,
  ) {
    const counted = countLeases(
      metrics.of(MAINTENANCE_METRICS),
      WEBHOOK_DISPATCH,
      metrics.of(WEBHOOK_METRICS).leaseChanges,
    );
    super(redis, log, {
      work: 'dispatched',
      leaseMs,
      beatMs: Math.min(LONGEST_BEAT_MS, Math.floor(leaseMs / 3)),
      instancesKey: dispatchInstancesKey(),
      reportsKey: dispatchReportsKey(),
      leaseKey: dispatchLeaseKey,
      partition: (number) => this.all[number] as DispatchPartition,
      ask: (partition) => takeOrRenew(redis, partition, leaseMs),
      mayLeave: (partition) => {
        partition.active = false;
        return !partition.isBusy;
      },
      changed: (change, partition) => {
        if (change !== 'taken') {
          partition.active = false;
          partition.reset();
        }
        counted.changed(change);
      },
      announcementFailed: counted.announcementFailed,
    });
    this.all = Array.from(
      { length: redis.partitions },
      (_, number) => new DispatchPartition(number, this.instance),
    );
  }

  get own(): DispatchPartition[] {
    return [...this.held.values()];
  }

  /** Works on each of these. A failure of one does not affect the others. */
  each<T>(
    partitions: readonly DispatchPartition[],
    work: (partition: DispatchPartition) => Promise<T>,
  ): Promise<(T | undefined)[]> {
    return Promise.all(
      partitions.map((partition) =>
        work(partition).catch((error: unknown) => {
          if (error instanceof LeaseLost) {
            this.lose(partition);
          } else if (!(error instanceof StoreUnavailable)) {
            // The connection logs an outage once.
            this.log.error(
              { err: error, partition: partition.code },
              'the events of a partition could not be dispatched; it will be retried',
            );
          }
          return undefined;
        }),
      ),
    );
  }
}

async function takeOrRenew(
  redis: RedisService,
  partition: DispatchPartition,
  leaseMs: number,
): Promise<LeaseReply> {
  const args = { token: partition.token, leaseMs, take: 1, after: '>', limit: 0 };
  const reply = await redis.scripts.call('dispatch_page', partition.keys, args);
  if (reply.status === 'HELD') {
    if (reply.lease === 'taken') {
      partition.reset();
    }
    partition.see(reply);
    // It may have been due to be given up; this beat decides again.
    partition.active = true;
  }
  return reply;
}
