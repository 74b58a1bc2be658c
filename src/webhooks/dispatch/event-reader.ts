import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { toEvent } from '../../events/index.js';
import { dispatchLeaseKey, eventLogKey, RedisService, SYSTEM_OWNER } from '../../redis/index.js';
import { LOGGER, type Logger } from '../../telemetry/index.js';
import { SharedRedisTime, type Turn } from '../../worker/index.js';
import { SubscriptionCache } from '../subscriptions/subscription-cache.js';
import { type DispatchLook, type DispatchPartition, LeaseLost } from './dispatch-partition.js';
import { DispatchMetrics } from './dispatch.metrics.js';
import type { LogEntry, WantedDelivery } from './event-backlog.js';
import { OrderedQueues } from './ordered-queues.js';

const PAGE = 100;
/** The longest that one turn reads a partition; the others get their turn, and what is left of its page is the next turn's. */
const TURN_BUDGET_MS = 50;
/** Deliveries that one script makes: about two milliseconds. One event may be for thousands of subscriptions. */
const QUEUED_AT_ONCE = 50;
const DAY_MS = 86_400_000;

/**
 * Reads the event log of a partition for the consumer group, and queues a delivery for each subscription that an event is for. The
 * subscriptions are read after the events, so that none which was made before an event misses it. An event is
 * acknowledged by the script that queues the last of its deliveries, and none that was queued is queued again, so whatever dies when, an
 * event is queued exactly once.
 */
@Injectable()
export class EventReader {
  private readonly time: SharedRedisTime;

  constructor(
    private readonly redis: RedisService,
    private readonly subscriptions: SubscriptionCache,
    private readonly queues: OrderedQueues,
    private readonly metrics: DispatchMetrics,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {
    this.time = new SharedRedisTime({
      share: config.webhookTimeShare / 100,
      isCluster: redis.client.isCluster,
      paused: () => metrics.counters.queueingPauses.inc(),
    });
  }

  /**
   * Those of the partitions that there is something to read in. Where all logs are on one Redis that is one command, however many they
   * are: an idle dispatcher asks ten times a second.
   */
  async withEvents(partitions: readonly DispatchPartition[]): Promise<readonly DispatchPartition[]> {
    const { client } = this.redis;
    const waiting = partitions.filter(({ isCaughtUp }) => isCaughtUp);
    const groups = client.isCluster ? waiting.map((partition) => [partition]) : [waiting];
    const replies = groups
      .filter((group) => group.length > 0)
      .map((group) => {
        const keys = group.map(({ tag }) => eventLogKey(tag));
        return client.xread('COUNT', 1, 'STREAMS', ...keys, ...group.map(({ lastRead }) => lastRead));
      });
    try {
      const moved = new Set(
        (await Promise.all(replies)).flatMap((reply) => (reply ?? []).map(([key]) => key)),
      );
      return partitions.filter(({ isCaughtUp, tag }) => !isCaughtUp || moved.has(eventLogKey(tag)));
    } catch {
      // Each partition's own reading tells what is wrong with it.
      return partitions;
    }
  }

  /**
   * Queues what is there, as far as one turn goes.
   * @param token of the lease
   * @returns whether there is more @throws StoreUnavailable, LeaseLost; what was read is then read again.
   */
  async readPartition(partition: DispatchPartition, token: string, turn: Turn): Promise<boolean> {
    const deadline = performance.now() + TURN_BUDGET_MS;
    try {
      if (partition.unknown) {
        await this.queues.find(partition);
        partition.unknown = false;
      }
      let more = true;
      while (partition.active && turn.goesOn() && performance.now() < deadline) {
        if (more && !partition.backlog.isFull) {
          more = await this.readPage(partition, token, turn);
        } else if (partition.backlog.isEmpty) {
          return false;
        } else {
          await this.queueBatch(partition, token, turn);
        }
      }
      return true;
    } catch (error) {
      partition.beginAnew();
      throw error;
    }
  }

  /** Reads the next events into the backlog. @returns whether there may be more */
  private async readPage(partition: DispatchPartition, token: string, turn: Turn): Promise<boolean> {
    const { after } = partition;
    if (after === '>' && (await this.skipUnwanted(partition, token))) {
      return false;
    }
    const { events, more } = await this.readEvents(partition, token, after);
    if (!turn.goesOn()) {
      // Another turn may have taken the partition up meanwhile; what was read here is read once more.
      partition.beginAnew();
      return false;
    }
    partition.backlog.add(events);
    const last = events.at(-1)?.entryId;
    if (after === '>') {
      partition.lastRead = last ?? partition.lastRead;
      return more;
    }
    partition.after = last ?? '>';
    return true;
  }

  /** Reads events, and then the subscriptions of their tenants. */
  private async readEvents({ tag }: DispatchPartition, token: string, after: string): Promise<DispatchLook> {
    const look = await this.redis.scripts.call(
      'dispatch_page',
      { lease: dispatchLeaseKey(tag), eventLog: eventLogKey(tag) },
      { token, leaseMs: this.config.webhookLeaseMs, take: 0, after, limit: PAGE },
    );
    if (look.status !== 'HELD') {
      throw new LeaseLost();
    }
    if (look.events.length > 0) {
      await this.subscriptions.refresh(look.events.flatMap(({ event }) => event.get('tn') ?? []));
    }
    return look;
  }

  /**
   * Leaves all that is there unread, where nobody has ever subscribed to it: neither in this partition nor, as the look at their
   * subscriptions after the log's end was noted shows, the operators.
   * @returns whether it is left; otherwise the events are to be read.
   */
  private async skipUnwanted(partition: DispatchPartition, token: string): Promise<boolean> {
    if (partition.watched || this.subscriptions.hasTargets(SYSTEM_OWNER)) {
      return false;
    }
    const keys = { lease: dispatchLeaseKey(partition.tag), eventLog: eventLogKey(partition.tag) };
    const end = await this.redis.scripts.call('skip_events', keys, { token, upTo: '', entriesAdded: '' });
    let { status } = end;
    if (end.status === 'UP_TO') {
      await this.subscriptions.refresh([]);
      if (this.subscriptions.hasTargets(SYSTEM_OWNER)) {
        return false;
      }
      const { entryId: upTo, entriesAdded } = end;
      ({ status } = await this.redis.scripts.call('skip_events', keys, { token, upTo, entriesAdded }));
      if (status === 'SKIPPED') {
        partition.lastRead = upTo;
        return true;
      }
    }
    if (status !== 'WATCHED') {
      throw new LeaseLost();
    }
    partition.watched = true;
    return false;
  }

  /** The next deliveries, as many as one script makes. */
  private async queueBatch(partition: DispatchPartition, token: string, turn: Turn): Promise<void> {
    const { tag, code, backlog } = partition;
    const { toRefill } = backlog;
    if (toRefill !== undefined) {
      const { events } = await this.readEvents(partition, token, toRefill.after);
      backlog.refill(toRefill.tenant, events);
      return;
    }
    await this.time.run(tag, async () => {
      if (!partition.active || !turn.goesOn() || partition.backlog !== backlog) {
        return;
      }
      const { complete, deliveries } = backlog.takeBatch(QUEUED_AT_ONCE, (one) => this.wanted(code, one));
      const reply = await this.redis.scripts.call(
        'queue_deliveries',
        { lease: dispatchLeaseKey(tag), eventLog: eventLogKey(tag) },
        {
          token,
          retentionMs: this.config.webhookDeliveryRetentionDays * DAY_MS,
          eventCount: complete.length,
          rest: [
            ...complete,
            ...deliveries.flatMap(({ entryId, tenant, event: { type, trace }, target }) => [
              entryId,
              target.subscriptionId,
              tenant,
              type,
              trace,
            ]),
          ],
        },
      );
      if (reply.status !== 'QUEUED') {
        throw new LeaseLost();
      }
      this.metrics.maintenance.trimmedEntries(reply.forgotten);
      this.metrics.counters.queued.inc({ result: 'queued' }, deliveries.length);
      for (const [index, { tenant, target }] of deliveries.entries()) {
        // One that was made before is in its queue, or done.
        if (reply.made?.[index] === '1') {
          this.queues.start(partition, `${target.subscriptionId}:${tenant}`, 1);
        }
      }
    });
  }

  /** The deliveries of an event. One that cannot be understood is nobody's, for it would stand in the way of all behind it. */
  private wanted(partition: string, { entryId, event: fields }: LogEntry): WantedDelivery[] {
    if (!this.subscriptions.hasTargets(fields.get('tn') ?? '')) {
      return [];
    }
    try {
      const event = toEvent(partition, entryId, fields);
      const { tenant_id: tenant, event_type: type } = event;
      const trace = fields.get('tr') ?? '';
      return this.subscriptions
        .matching(event)
        .map((target) => ({ entryId, tenant, event: { type, trace }, target }));
    } catch (error) {
      this.metrics.counters.queued.inc({ result: 'failure' });
      this.logger.error(
        { err: error, partition, entry: entryId },
        'an event cannot be understood and is delivered to nobody',
      );
      return [];
    }
  }
}
