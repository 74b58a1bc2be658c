import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { toEvent } from '../../events/index.js';
import { dispatchLeaseKey, eventLogKey, RedisService, type Reply, SYSTEM_OWNER } from '../../redis/index.js';
import { LOGGER, type Logger } from '../../telemetry/index.js';
import type { DispatchTarget } from '../subscriptions/dispatch-target.js';
import { SubscriptionBook } from '../subscriptions/subscription-cache.js';
import { DeliveryStore } from './delivery-store.js';
import type { DispatchPartition } from './dispatch-partition.js';
import { DispatchMetrics } from './dispatch.metrics.js';
import { Lanes } from './lanes.js';
import { OutgoingEvent } from './outgoing-event.js';
import { dispatchLookOf, type LogEntry } from './page.js';

const PAGE = 250;
/** The longest that one partition is read in a row; the others get their turn. */
const READ_BUDGET_MS = 200;
/** Deliveries that one script makes: a few milliseconds. One event may be for thousands of subscriptions. */
const QUEUED_AT_ONCE = 200;
const DAY_MS = 86_400_000;

/** Under whose lease a partition is read, and for how long. */
export interface Reading {
  readonly token: string;
  /** False when another reading has begun meanwhile; this one then leaves everything to it. */
  readonly isCurrent: () => boolean;
}

/** What a run of `queue_deliveries` is told: what there is to deliver, and the events that are acknowledged with it, being complete. */
interface Batch {
  readonly entryIds: string[];
  readonly deliveries: QueuedDelivery[];
}

interface QueuedDelivery {
  readonly entryId: string;
  readonly tenant: string;
  readonly event: OutgoingEvent;
  readonly target: DispatchTarget;
}

/**
 * Reads the event log of a partition for the consumer group, and queues a delivery for each subscription that an event is for. The
 * subscriptions are read after the events, so that none which was made before an event misses it. An event is
 * acknowledged by the script that queues the last of its deliveries, and none that was queued is queued again, so whatever dies when, an
 * event is queued exactly once.
 */
@Injectable()
export class EventReader {
  private readonly retentionMs: number;

  constructor(
    private readonly redis: RedisService,
    private readonly book: SubscriptionBook,
    private readonly lanes: Lanes,
    private readonly store: DeliveryStore,
    private readonly metrics: DispatchMetrics,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {
    this.retentionMs = config.webhookDeliveryRetentionDays * DAY_MS;
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

  /**
   * Queues what is there, in order.
   * @returns whether more may be there; `lost` when the partition is another instance's.
   * @throws StoreUnavailable; what was read is then read again.
   */
  async read(partition: DispatchPartition, reading: Reading): Promise<'all' | 'more' | 'lost'> {
    try {
      if (partition.unknown) {
        await this.lanes.find(partition);
        partition.unknown = false;
      }
      return await this.readOn(partition, reading);
    } catch (error) {
      partition.beginAnew();
      throw error;
    }
  }

  private async readOn(partition: DispatchPartition, reading: Reading): Promise<'all' | 'more' | 'lost'> {
    const deadline = performance.now() + READ_BUDGET_MS;
    while (partition.active && reading.isCurrent() && performance.now() < deadline) {
      const { tag, after } = partition;
      if (after === '>') {
        const outcome = await this.skip(partition, reading);
        if (outcome !== 'wanted') {
          return outcome;
        }
      }
      const reply = await this.redis.scripts.run(
        'dispatch_page',
        [dispatchLeaseKey(tag), eventLogKey(tag)],
        [reading.token, this.config.webhookLeaseMs, 0, after, PAGE],
      );
      const look = dispatchLookOf(reply);
      if (look === undefined) {
        return 'lost';
      }
      this.store.clock.tell(look.nowMs);
      const last = look.entries.at(-1);
      if (last !== undefined && !(await this.queueAll(partition, reading, look.entries))) {
        return 'lost';
      }
      if (after !== '>') {
        partition.after = last?.entryId ?? '>';
        continue;
      }
      partition.lastRead = last?.entryId ?? partition.lastRead;
      if (!look.more) {
        return 'all';
      }
    }
    return 'more';
  }

  /**
   * Leaves all that is there unread, where nobody has ever subscribed to it: neither in this partition nor, as the look at their
   * subscriptions after the log's end was noted shows, the operators.
   * @returns `wanted` when the events are to be read.
   */
  private async skip(
    partition: DispatchPartition,
    { token, isCurrent }: Reading,
  ): Promise<'all' | 'lost' | 'wanted'> {
    if (partition.watched || this.book.hasTargets(SYSTEM_OWNER)) {
      return 'wanted';
    }
    const run = async (upTo: string, entriesAdded: string): Promise<Reply> =>
      this.redis.scripts.run(
        'skip_events',
        [dispatchLeaseKey(partition.tag), eventLogKey(partition.tag)],
        [token, upTo, entriesAdded],
      );
    const [found, , upTo = '', entriesAdded = ''] = await run('', '');
    if (found === 'UP_TO') {
      await this.book.refresh([]);
      if (!isCurrent()) {
        return 'all';
      }
      if (this.book.hasTargets(SYSTEM_OWNER)) {
        return 'wanted';
      }
    }
    const outcome = found === 'UP_TO' ? (await run(upTo, entriesAdded))[0] : found;
    switch (outcome) {
      case 'SKIPPED':
        partition.lastRead = upTo;
        return 'all';
      case 'WATCHED':
        partition.watched = true;
        return 'wanted';
      default:
        return 'lost';
    }
  }

  /** @returns false when the lease is another's. */
  private async queueAll(
    partition: DispatchPartition,
    reading: Reading,
    entries: readonly LogEntry[],
  ): Promise<boolean> {
    await this.book.refresh([...new Set(entries.flatMap(({ fields }) => fields.get('tn') ?? []))]);
    let batch: Batch = { entryIds: [], deliveries: [] };
    for (const entry of entries) {
      for (const delivery of this.wanted(partition, entry)) {
        if (batch.deliveries.length === QUEUED_AT_ONCE) {
          if (!(await this.queue(partition, reading, batch))) {
            return false;
          }
          batch = { entryIds: [], deliveries: [] };
        }
        batch.deliveries.push(delivery);
      }
      batch.entryIds.push(entry.entryId);
    }
    return batch.entryIds.length === 0 || (await this.queue(partition, reading, batch));
  }

  /** Who wants an event. One that cannot be understood is nobody's, for it would stand in the way of all behind it. */
  private wanted({ code }: DispatchPartition, entry: LogEntry): QueuedDelivery[] {
    const { entryId, fields } = entry;
    if (!this.book.hasTargets(fields.get('tn') ?? '')) {
      return [];
    }
    try {
      const event = toEvent(code, entryId, fields);
      const targets = this.book.matching(event);
      if (targets.length === 0) {
        return [];
      }
      const outgoing = new OutgoingEvent(event, entry);
      return targets.map((target) => ({ entryId, tenant: event.tenant_id, event: outgoing, target }));
    } catch (error) {
      this.metrics.queued('failure', 1);
      this.logger.error(
        { err: error, partition: code, entry: entry.entryId },
        'an event cannot be understood and is delivered to nobody',
      );
      return [];
    }
  }

  /** @returns false when the lease is another's. */
  private async queue(
    partition: DispatchPartition,
    { token, isCurrent }: Reading,
    { entryIds, deliveries }: Batch,
  ): Promise<boolean> {
    const { tag } = partition;
    if (!isCurrent()) {
      return true;
    }
    const reply: Reply = await this.redis.scripts.run(
      'queue_deliveries',
      [dispatchLeaseKey(tag), eventLogKey(tag)],
      [
        token,
        this.retentionMs,
        entryIds.length,
        ...entryIds,
        ...deliveries.flatMap(({ entryId, tenant, event, target }) => [
          entryId,
          target.subscriptionId,
          tenant,
          event.signed.eventType,
          event.trace,
        ]),
      ],
    );
    const [word, nowMs, made = '', forgotten] = reply;
    if (word !== 'QUEUED') {
      return false;
    }
    this.metrics.trimmedEntries(Number(forgotten));
    // One that was made before is in its lane, or done.
    const fresh = deliveries.filter((_delivery, index) => made[index] === '1');
    const born = { partition: partition.code, tag, createdMs: Number(nowMs), attempts: 0, ended: false };
    this.lanes.add(
      partition,
      fresh.map(({ entryId, tenant, event, target: { subscriptionId } }) => ({
        ...born,
        ref: `${entryId}:${subscriptionId}`,
        subscriptionId,
        tenant,
        event,
      })),
    );
    this.metrics.queued('queued', deliveries.length);
    return true;
  }
}
