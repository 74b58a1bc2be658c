import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { LOGGER, type Logger } from '../telemetry/index.js';
import {
  RedisService,
  sweepInstancesKey,
  sweepLeaseKey,
  sweepReportsKey,
  ttlIndexKey,
} from '../redis/index.js';
import { PartitionLeases, type LeaseAnswer } from '../worker/index.js';
import { lookOf, Partition } from './partition.js';
import { SweepMetrics } from './sweep.metrics.js';

/** Which partitions this instance sweeps. Sweeping one twice is harmless, because lua/expire.lua alone judges. */
@Injectable()
export class SweepLeases extends PartitionLeases<Partition> {
  constructor(
    redis: RedisService,
    metrics: SweepMetrics,
    @Inject(CONFIG) { sweepLeaseMs: leaseMs, sweepIntervalMs }: HoldfastConfig,
    @Inject(LOGGER) logger: Logger,
  ) {
    super(redis, logger, {
      work: 'swept',
      leaseMs,
      beatMs: Math.min(sweepIntervalMs, Math.floor(leaseMs / 3)),
      instancesKey: sweepInstancesKey(),
      reportsKey: sweepReportsKey(),
      leaseKey: sweepLeaseKey,
      partition: (number) => new Partition(number),
      ask: (partition, token) => askToSweep(redis, partition, token, leaseMs),
      mayLeave: () => true,
      changed: (change) => metrics.leaseChanged(change),
      announcementFailed: () => metrics.leaseFailed(),
    });
  }
}

async function askToSweep(
  redis: RedisService,
  partition: Partition,
  token: string,
  leaseMs: number,
): Promise<LeaseAnswer> {
  const { tag } = partition;
  const reply = await redis.scripts.run(
    'sweep_page',
    [sweepLeaseKey(tag), ttlIndexKey(tag)],
    [token, leaseMs, 1, 0, 0],
  );
  const look = lookOf(reply);
  if (look === undefined) {
    return { word: 'other', lapsesInMs: Number(reply[2]) };
  }
  partition.see(look, performance.now());
  return { word: look.lease === 'taken' ? 'taken' : 'held' };
}
