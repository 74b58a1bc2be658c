import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { LOGGER, type Logger } from '../../logging/index.js';
import { dispatchLeaseKey, eventLogKey, RedisService, type Reply } from '../../redis/index.js';
import { SubscriptionBook, type DispatchTarget } from '../subscriptions/index.js';
import { DeliveryStore } from './delivery-store.js';
import type { DispatchPartition } from './dispatch-partition.js';
import { DispatchMetrics } from './dispatch.metrics.js';
import { Lanes } from './lanes.js';
import { OutgoingEvent } from './outgoing-event.js';
import { dispatchLookOf, type LogEntry } from './page.js';

const PAGE = 250;
/** The longest that one partition is read in a row; the others get their turn. */
const READ_BUDGET_MS = 200;
/** Deliveries that one script makes: a few milliseconds. */
const QUEUED_AT_ONCE = 500;
const DAY_MS = 86_400_000;

interface Wanted {
  readonly outgoing: OutgoingEvent;
  readonly targets: readonly DispatchTarget[];
}

/** Under whose lease a partition is read, and for how long. */
export interface Reading {
  readonly token: string;
  /** False when another reading has begun meanwhile; this one then leaves everything to it. */
  readonly isCurrent: () => boolean;
}

/** What a run of `queue_deliveries` is told: events to acknowledge, and what there is to deliver of them. */
interface Batch {
  readonly entryIds: string[];
  readonly deliveries: { readonly outgoing: OutgoingEvent; readonly target: DispatchTarget }[];
}

/**
 * Reads the event log of a partition for the consumer group, and queues a delivery for each subscription that an event is for. The
 * subscriptions are read after the events, so that none which was made before an event misses it. Queueing and acknowledging are
 * one script, so whatever dies when, an event is queued exactly once.
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
      const reply = await this.redis.scripts.run(
        'dispatch_page', [dispatchLeaseKey(tag), eventLogKey(tag)], [reading.token, this.config.webhookLeaseMs, 0, after, PAGE],
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
      if (after === '>' && look.entries.length < PAGE) {
        return 'all';
      }
      if (after !== '>') {
        partition.after = last?.entryId ?? '>';
      }
    }
    return 'more';
  }

  /** @returns false when the lease is another's. */
  private async queueAll(partition: DispatchPartition, reading: Reading, entries: readonly LogEntry[]): Promise<boolean> {
    await this.book.refresh([...new Set(entries.flatMap(({ fields }) => fields.get('tn') ?? []))]);
    let batch: Batch = { entryIds: [], deliveries: [] };
    for (const entry of entries) {
      const wanted = this.wanted(partition, entry);
      batch.entryIds.push(entry.entryId);
      batch.deliveries.push(...(wanted?.targets ?? []).map((target) => ({ outgoing: (wanted as Wanted).outgoing, target })));
      if (batch.deliveries.length >= QUEUED_AT_ONCE) {
        if (!(await this.queue(partition, reading, batch))) {
          return false;
        }
        batch = { entryIds: [], deliveries: [] };
      }
    }
    return batch.entryIds.length === 0 || this.queue(partition, reading, batch);
  }

  /** Who wants an event. One that cannot be understood is nobody's, for it would stand in the way of all behind it. */
  private wanted({ code }: DispatchPartition, entry: LogEntry): Wanted | undefined {
    if (!this.book.hasTargets(entry.fields.get('tn') ?? '')) {
      return undefined;
    }
    try {
      const outgoing = new OutgoingEvent(code, entry);
      return { outgoing, targets: this.book.matching(outgoing.event) };
    } catch (error) {
      this.metrics.queued('failure', 1);
      this.logger.error({ err: error, partition: code, entry: entry.entryId }, 'an event cannot be understood and is delivered to nobody');
      return undefined;
    }
  }

  private async queue(partition: DispatchPartition, { token, isCurrent }: Reading, { entryIds, deliveries }: Batch): Promise<boolean> {
    const { tag } = partition;
    if (!isCurrent()) {
      return true;
    }
    const reply: Reply = await this.redis.scripts.run(
      'queue_deliveries',
      [dispatchLeaseKey(tag), eventLogKey(tag)],
      [
        token, this.retentionMs, entryIds.length, ...entryIds,
        ...deliveries.flatMap(({ outgoing, target }) => [
          outgoing.entry.entryId, target.subscriptionId, outgoing.event.tenant_id, outgoing.event.event_type, outgoing.trace,
        ]),
      ],
    );
    const [word, nowMs, made = ''] = reply;
    if (word !== 'QUEUED') {
      return false;
    }
    const { code } = partition;
    for (const [index, { outgoing, target }] of deliveries.entries()) {
      // One that was made before is in its lane, or done.
      if (made[index] === '1') {
        this.lanes.add(partition, {
          partition: code, tag, ref: `${outgoing.entry.entryId}:${target.subscriptionId}`, subscriptionId: target.subscriptionId,
          tenant: outgoing.event.tenant_id, createdMs: Number(nowMs), attempts: 0, event: outgoing, ended: false,
        });
      }
    }
    this.metrics.queued('queued', deliveries.length);
    return true;
  }
}
