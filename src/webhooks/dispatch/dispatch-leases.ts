import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { LOGGER, type Logger } from '../../telemetry/index.js';
import {
  dispatchInstancesKey,
  dispatchLeaseKey,
  dispatchReportsKey,
  eventLogKey,
  RedisService,
} from '../../redis/index.js';
import { PartitionLeases, type LeaseAnswer } from '../../worker/index.js';
import { DispatchPartition } from './dispatch-partition.js';
import { DispatchMetrics } from './dispatch.metrics.js';
import { OrderedQueues } from './ordered-queues.js';
import { Retries } from './retries.js';

const LONGEST_BEAT_MS = 1000;

/**
 * Which partitions' events this instance dispatches. The scripts that read and queue ask for the lease themselves, so two views of it put
 * no event out of order; a delivery that is under way while its partition changes hands may be repeated.
 */
@Injectable()
export class DispatchLeases extends PartitionLeases<DispatchPartition> {
  constructor(
    redis: RedisService,
    queues: OrderedQueues,
    retries: Retries,
    metrics: DispatchMetrics,
    @Inject(CONFIG) { webhookLeaseMs: leaseMs }: HoldfastConfig,
    @Inject(LOGGER) logger: Logger,
  ) {
    super(redis, logger, {
      work: 'dispatched',
      leaseMs,
      beatMs: Math.min(LONGEST_BEAT_MS, Math.floor(leaseMs / 3)),
      instancesKey: dispatchInstancesKey(),
      reportsKey: dispatchReportsKey(),
      leaseKey: dispatchLeaseKey,
      partition: (number) => new DispatchPartition(number),
      ask: (partition, token) => takeOrRenew(redis, partition, token, leaseMs),
      mayLeave: (partition) => {
        partition.active = false;
        return !queues.isBusy(partition) && !retries.isBusy(partition);
      },
      changed: (change, partition) => {
        partition.active = change === 'taken';
        metrics.leaseChanged(change);
      },
      announcementFailed: () => metrics.leaseFailed(),
    });
  }
}

async function takeOrRenew(
  redis: RedisService,
  partition: DispatchPartition,
  token: string,
  leaseMs: number,
): Promise<LeaseAnswer> {
  const { tag } = partition;
  const look = await redis.scripts.call(
    'dispatch_page',
    { lease: dispatchLeaseKey(tag), eventLog: eventLogKey(tag) },
    { token, leaseMs, take: 1, after: '>', limit: 0 },
  );
  if (look.status !== 'HELD') {
    return { word: 'other', lapsesInMs: look.status === 'OTHER' ? look.lapsesInMs : 0 };
  }
  partition.see(look, performance.now());
  // It was to be given away and could not be, and perhaps need not be any more: this beat decides anew.
  partition.active = true;
  if (look.lease === 'taken') {
    // Somebody else may have had it since it was last held here.
    partition.beginAnew();
  } else if ((look.queues ?? 0) > 0) {
    partition.unknown = true;
  }
  return { word: look.lease === 'taken' ? 'taken' : 'held' };
}
