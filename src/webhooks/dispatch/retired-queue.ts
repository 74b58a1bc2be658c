import { setTimeout as delay } from 'node:timers/promises';
import { Injectable, type OnModuleInit } from '@nestjs/common';
import { orStoreError, queuePrefix, RedisService } from '../../redis/index.js';
import { Worker } from '../../worker/index.js';

const QUEUE = `${queuePrefix()}:webhook-retries`;
const DELAYED = `${QUEUE}:delayed`;
const LISTS = [`${QUEUE}:wait`, `${QUEUE}:active`];
/** Keys of the queue besides its jobs. */
const OTHERS = ['meta', 'id', 'events', 'marker', 'stalled', 'stalled-check', 'limiter', 'pc', 'failed'];
const JOBS_AT_ONCE = 200;
const PAUSE_MS = 100;
/** Keeps the removal out of the start of the service. */
const STARTS_IN_MS = 60_000;
const INTERVAL_MS = 3_600_000;

/**
 * Removes the job queue in which versions before 0.6 kept retries, a few jobs at a time. Its jobs hold nothing that the delivery records
 * and the retry index do not hold too, and Retries works from those, so nothing has to be migrated.
 */
@Injectable()
export class RetiredQueue implements OnModuleInit {
  constructor(
    private readonly redis: RedisService,
    private readonly worker: Worker,
  ) {}

  onModuleInit(): void {
    this.worker.addRegular({
      name: 'retired_queue',
      role: 'dispatcher',
      startsInMs: STARTS_IN_MS,
      intervalMs: INTERVAL_MS,
      run: async (turn) => {
        while (turn.goesOn() && (await orStoreError(this.removeSome()))) {
          await delay(PAUSE_MS);
        }
      },
    });
  }

  /** @returns whether anything was removed */
  async removeSome(): Promise<boolean> {
    const { client } = this.redis;
    const delayed = await client.zrange(DELAYED, 0, String(JOBS_AT_ONCE - 1));
    const listed = await Promise.all(LISTS.map((list) => client.lrange(list, 0, JOBS_AT_ONCE - 1)));
    const ids = [...delayed, ...listed.flat()];
    if (ids.length === 0) {
      return (await client.unlink(OTHERS.map((name) => `${QUEUE}:${name}`))) > 0;
    }
    await client.unlink(ids.flatMap((id) => [`${QUEUE}:${id}`, `${QUEUE}:${id}:lock`]));
    await Promise.all([
      ...(delayed.length === 0 ? [] : [client.zrem(DELAYED, ...delayed)]),
      ...LISTS.map((list, index) => client.ltrim(list, (listed[index] ?? []).length, -1)),
    ]);
    return true;
  }
}
