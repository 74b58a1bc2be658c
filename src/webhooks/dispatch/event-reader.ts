import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { toEvent } from '../../events/index.js';
import { LOGGER, type Logger } from '../../telemetry/index.js';
import {
  dispatchLeaseKey,
  eventLogKey,
  RedisService,
  type ScriptReply,
  SYSTEM_OWNER,
} from '../../redis/index.js';
import { SharedRedisTime, type Turn } from '../../worker/index.js';
import { SubscriptionCache } from '../subscriptions/subscription-cache.js';
import { type Delivery, OutgoingEvent, type WantedDelivery } from './delivery.js';
import { DeliveryStore, type DispatchLook, type LogEntry } from './delivery-store.js';
import type { DispatchPartition } from './dispatch-partition.js';
import { DispatchMetrics } from './dispatch.metrics.js';
import { OrderedQueues } from './ordered-queues.js';

const PAGE = 100;
/** The longest that one turn reads a partition; the others get their turn, and what is left of its page is the next turn's. */
const TURN_BUDGET_MS = 50;
/** Deliveries that one script makes: about two milliseconds. One event may be for thousands of subscriptions. */
const QUEUED_AT_ONCE = 50;
const DAY_MS = 86_400_000;

/** `all`: nothing is left for now. `lost`: the partition is another instance's. */
export type ReadOutcome = 'all' | 'more' | 'lost';

/**
 * Reads the event log of a partition for the consumer group, and queues a delivery for each subscription that an event is for. The
 * subscriptions are read after the events, so that none which was made before an event misses it. An event is
 * acknowledged by the script that queues the last of its deliveries, and none that was queued is queued again, so whatever dies when, an
 * event is queued exactly once.
 */
@Injectable()
export class EventReader {
  private readonly retentionMs: number;
  private readonly time: SharedRedisTime;

  constructor(
    private readonly redis: RedisService,
    private readonly subscriptions: SubscriptionCache,
    private readonly queues: OrderedQueues,
    private readonly store: DeliveryStore,
    private readonly metrics: DispatchMetrics,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {
    this.retentionMs = config.webhookDeliveryRetentionDays * DAY_MS;
    this.time = new SharedRedisTime({
      share: config.webhookTimeShare / 100,
      isCluster: redis.client.isCluster,
      paused: () => metrics.queueingPauses.inc(),
    });
  }

  /**
   * Those of the partitions that there is something to read in. Where all logs are on one Redis that is one command, however many they
   * are: an idle dispatcher asks ten times a second.
   */
  async withEvents(partitions: readonly DispatchPartition[]): Promise<readonly DispatchPartition[]> {
    const { client } = this.redis;
    const waiting = partitions.filter(({ isCaughtUp }) => isCaughtUp);
    const groups = client.isCluster
      ? waiting.map((partition) => [partition])
      : waiting.length === 0
        ? []
        : [waiting];
    try {
      const replies = await Promise.all(
        groups.map((group) =>
          client.xread(
            'COUNT',
            1,
            'STREAMS',
            ...group.map(({ tag }) => eventLogKey(tag)),
            ...group.map(({ lastRead }) => lastRead),
          ),
        ),
      );
      const moved = new Set(replies.flatMap((reply) => (reply ?? []).map(([key]) => key)));
      return partitions.filter(({ isCaughtUp, tag }) => !isCaughtUp || moved.has(eventLogKey(tag)));
    } catch {
      // Each partition's own reading tells what is wrong with it.
      return partitions;
    }
  }

  /** Queues what is there, as far as one turn goes. @throws StoreUnavailable; what was read is then read again. */
  async readPartition(partition: DispatchPartition, token: string, turn: Turn): Promise<ReadOutcome> {
    const deadline = performance.now() + TURN_BUDGET_MS;
    try {
      if (partition.unknown) {
        await this.queues.find(partition);
        partition.unknown = false;
      }
      let read: ReadOutcome = 'more';
      while (partition.active && turn.goesOn() && performance.now() < deadline) {
        if (read === 'more' && !partition.backlog.isFull) {
          read = await this.readPage(partition, token, turn);
        } else if (partition.backlog.isEmpty) {
          return read;
        } else if (!(await this.queueBatch(partition, token, turn))) {
          return 'lost';
        }
        if (read === 'lost') {
          return 'lost';
        }
      }
      return 'more';
    } catch (error) {
      partition.beginAnew();
      throw error;
    }
  }

  /** Reads the next events into the backlog. */
  private async readPage(partition: DispatchPartition, token: string, turn: Turn): Promise<ReadOutcome> {
    const { after } = partition;
    if (after === '>') {
      const outcome = await this.skipUnwanted(partition, token, turn);
      if (outcome !== 'wanted') {
        return outcome;
      }
    }
    const look = await this.readEvents(partition, token, after);
    if (look === undefined) {
      return 'lost';
    }
    const last = look.events.at(-1)?.entryId;
    if (last === undefined) {
      partition.after = '>';
      return after === '>' ? 'all' : 'more';
    }
    if (!turn.goesOn()) {
      // Another turn may have taken the partition up meanwhile; what was read here is read once more.
      partition.beginAnew();
      return 'all';
    }
    partition.backlog.add(look.events);
    if (after === '>') {
      partition.lastRead = last;
      return look.more ? 'more' : 'all';
    }
    partition.after = last;
    return 'more';
  }

  /** Reads events, and then the subscriptions of their tenants. @returns undefined when the lease is another's */
  private async readEvents(
    { tag }: DispatchPartition,
    token: string,
    after: string,
  ): Promise<DispatchLook | undefined> {
    const look = await this.redis.scripts.call(
      'dispatch_page',
      { lease: dispatchLeaseKey(tag), eventLog: eventLogKey(tag) },
      { token, leaseMs: this.config.webhookLeaseMs, take: 0, after, limit: PAGE },
    );
    if (look.status !== 'HELD') {
      return undefined;
    }
    this.store.clock.set(look.nowMs);
    if (look.events.length > 0) {
      await this.subscriptions.refresh([
        ...new Set(look.events.flatMap(({ event }) => event.get('tn') ?? [])),
      ]);
    }
    return look;
  }

  /**
   * Leaves all that is there unread, where nobody has ever subscribed to it: neither in this partition nor, as the look at their
   * subscriptions after the log's end was noted shows, the operators.
   * @returns `wanted` when the events are to be read.
   */
  private async skipUnwanted(
    partition: DispatchPartition,
    token: string,
    turn: Turn,
  ): Promise<'all' | 'lost' | 'wanted'> {
    if (partition.watched || this.subscriptions.hasTargets(SYSTEM_OWNER)) {
      return 'wanted';
    }
    const skipEvents = (upTo: string, entriesAdded: string): Promise<ScriptReply<'skip_events'>> =>
      this.redis.scripts.call(
        'skip_events',
        { lease: dispatchLeaseKey(partition.tag), eventLog: eventLogKey(partition.tag) },
        { token, upTo, entriesAdded },
      );
    const end = await skipEvents('', '');
    if (end.status === 'UP_TO') {
      await this.subscriptions.refresh([]);
      if (!turn.goesOn()) {
        return 'all';
      }
      if (this.subscriptions.hasTargets(SYSTEM_OWNER)) {
        return 'wanted';
      }
    }
    const { status } = end.status === 'UP_TO' ? await skipEvents(end.entryId, end.entriesAdded) : end;
    if (status === 'SKIPPED' && end.status === 'UP_TO') {
      partition.lastRead = end.entryId;
      return 'all';
    }
    partition.watched = status === 'WATCHED';
    return partition.watched ? 'wanted' : 'lost';
  }

  /** Who wants an event. One that cannot be understood is nobody's, for it would stand in the way of all behind it. */
  private deliveriesOf(partition: string, { entryId, event: fields }: LogEntry): WantedDelivery[] {
    if (!this.subscriptions.hasTargets(fields.get('tn') ?? '')) {
      return [];
    }
    try {
      const event = toEvent(partition, entryId, fields);
      const targets = this.subscriptions.matching(event);
      if (targets.length === 0) {
        return [];
      }
      const outgoing = new OutgoingEvent(event, fields);
      return targets.map((target) => ({ entryId, tenant: event.tenant_id, event: outgoing, target }));
    } catch (error) {
      this.metrics.queued.inc({ result: 'failure' });
      this.logger.error(
        { err: error, partition, entry: entryId },
        'an event cannot be understood and is delivered to nobody',
      );
      return [];
    }
  }

  /** The next deliveries, as many as one script makes. @returns false when the lease is another's */
  private async queueBatch(partition: DispatchPartition, token: string, turn: Turn): Promise<boolean> {
    const { tag, code, backlog } = partition;
    const { toRefill } = backlog;
    if (toRefill !== undefined) {
      const look = await this.readEvents(partition, token, toRefill.after);
      backlog.refill(toRefill.tenant, look?.events ?? []);
      return look !== undefined;
    }
    return this.time.run(tag, async () => {
      if (!partition.active || !turn.goesOn() || partition.backlog !== backlog) {
        return true;
      }
      const { complete, deliveries } = backlog.takeBatch(QUEUED_AT_ONCE, (entry) =>
        this.deliveriesOf(code, entry),
      );
      const reply = await this.redis.scripts.call(
        'queue_deliveries',
        { lease: dispatchLeaseKey(tag), eventLog: eventLogKey(tag) },
        {
          token,
          retentionMs: this.retentionMs,
          eventCount: complete.length,
          rest: [...complete, ...deliveries.flatMap(queueArguments)],
        },
      );
      if (reply.status !== 'QUEUED') {
        return false;
      }
      const { nowMs, made = '', forgotten } = reply;
      this.metrics.trimmedEntries(forgotten);
      this.metrics.queued.inc({ result: 'queued' }, deliveries.length);
      // One that was made before is in its queue, or done.
      const fresh = deliveries.filter((_delivery, index) => made[index] === '1');
      this.queues.add(
        partition,
        fresh.map((delivery) => queuedOf(partition, delivery, nowMs)),
      );
      return true;
    });
  }
}

function queueArguments({ entryId, tenant, event, target }: WantedDelivery): string[] {
  return [entryId, target.subscriptionId, tenant, event.signed.eventType, event.trace];
}

function queuedOf({ code, tag }: DispatchPartition, delivery: WantedDelivery, createdMs: number): Delivery {
  const { entryId, tenant, event, target } = delivery;
  const { subscriptionId } = target;
  return {
    partition: code,
    tag,
    ref: `${entryId}:${subscriptionId}`,
    subscriptionId,
    tenant,
    status: 'PENDING',
    createdMs,
    attempts: 0,
    dueInMs: 0,
    event,
  };
}
