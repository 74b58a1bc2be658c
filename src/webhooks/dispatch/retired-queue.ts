import { Injectable, type OnModuleInit } from '@nestjs/common';
import { queuePrefix, RedisService } from '../../redis/index.js';
import { type Job, type TurnReport, Worker } from '../../worker/index.js';
import { orStoreError } from './delivery-store.js';

const QUEUE = `${queuePrefix()}:webhook-retries`;
const DELAYED = `${QUEUE}:delayed`;
const LISTS = [`${QUEUE}:wait`, `${QUEUE}:active`];
/** What the queue kept beside its jobs. */
const OTHERS = ['meta', 'id', 'events', 'marker', 'stalled', 'stalled-check', 'limiter', 'pc', 'failed'];
const JOBS_A_TURN = 200;
const PAUSE_MS = 100;
/** Not while the service starts. */
const STARTS_IN_MS = 60_000;
const INTERVAL_MS = 3_600_000;

/**
 * Removes the job queue in which versions before 0.6 kept retries, some jobs at a time. Its jobs say nothing that the records of the
 * deliveries and the index of retries do not say, from which Retries goes on, so nothing has to be carried over.
 */
@Injectable()
export class RetiredQueue implements OnModuleInit, Job {
  readonly name = 'retired_queue';
  readonly role = 'dispatcher';
  readonly startsInMs = STARTS_IN_MS;
  readonly afterErrorMs = INTERVAL_MS;

  constructor(
    private readonly redis: RedisService,
    private readonly worker: Worker,
  ) {}

  onModuleInit(): void {
    this.worker.add(this);
  }

  async runTurn(): Promise<TurnReport> {
    return (await this.removeSome()) ? { sleepMs: PAUSE_MS, outcome: 'success' } : { sleepMs: INTERVAL_MS };
  }

  /** @returns whether there was something to remove @throws StoreUnavailable */
  async removeSome(): Promise<boolean> {
    const { client } = this.redis;
    const delayed = await orStoreError(client.zrange(DELAYED, 0, String(JOBS_A_TURN - 1)));
    const listed = await Promise.all(
      LISTS.map((list) => orStoreError(client.lrange(list, 0, JOBS_A_TURN - 1))),
    );
    const ids = [...delayed, ...listed.flat()];
    if (ids.length === 0) {
      return (await orStoreError(client.unlink(OTHERS.map((name) => `${QUEUE}:${name}`)))) > 0;
    }
    await orStoreError(client.unlink(ids.flatMap((id) => [`${QUEUE}:${id}`, `${QUEUE}:${id}:lock`])));
    if (delayed.length > 0) {
      await orStoreError(client.zrem(DELAYED, ...delayed));
    }
    await Promise.all(
      LISTS.map((list, index) => orStoreError(client.ltrim(list, (listed[index] ?? []).length, -1))),
    );
    return true;
  }
}
