import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { toEvent } from '../../events/index.js';
import { RedisService, type ScriptAnswer, SYSTEM_OWNER } from '../../redis/index.js';
import { LOGGER, type Logger, MetricsRegistry } from '../../telemetry/index.js';
import { MAINTENANCE_METRICS, SharedRedisTime, type Turn } from '../../worker/index.js';
import { SubscriptionCache } from '../subscriptions/subscription-cache.js';
import { type DispatchPartition, LeaseLost } from './dispatch-partition.js';
import { outgoing } from './delivery.js';
import type { LogEntry, WantedDelivery } from './event-backlog.js';
import { OrderedQueues } from './ordered-queues.js';
import { WEBHOOK_METRICS } from '../webhooks.metrics.js';

const PAGE = 100;
/** The longest that one turn works on a partition. The next turn continues. */
const TURN_BUDGET_MS = 50;
/** Deliveries made by one script, in less than two milliseconds. Each script waits for a round trip, which is long when Redis is busy. */
const QUEUED_AT_ONCE = 50;
/**
 * Events whose queues all have this many waiting stay in the log. Queueing costs the service some 40 µs, reading past them 20. Requests and
 * attempts would lack what it takes for as long as events come faster than an endpoint answers. The next turn, about 100 ms later, sees
 * whether a queue is shorter, long before it is empty.
 */
const QUEUED_AHEAD = 5000;

/**
 * Reads the event log of a partition for the consumer group, and queues a delivery for each subscription that an event matches. It reads
 * the subscriptions after the events, so a subscription never misses an event that is younger than itself. The script that queues the
 * last delivery of an event also acknowledges it, and never queues a delivery twice, so each event is queued exactly once, whatever crashes.
 */
@Injectable()
export class EventReader {
  private readonly counts = this.metrics.of(WEBHOOK_METRICS);
  private readonly time: SharedRedisTime;

  constructor(
    private readonly redis: RedisService,
    private readonly subscriptions: SubscriptionCache,
    private readonly queues: OrderedQueues,
    private readonly metrics: MetricsRegistry,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {
    this.time = new SharedRedisTime({
      share: config.webhookTimeShare / 100,
      paused: () => this.counts.queueingPauses.inc(),
    });
  }

  /** Starts no first attempt any more. */
  close(): void {
    this.queues.close();
  }

  /**
   * The partitions that have something to read. On a single Redis this takes one command for all partitions, because an idle dispatcher
   * asks ten times a second.
   */
  async withEvents(partitions: readonly DispatchPartition[]): Promise<readonly DispatchPartition[]> {
    const { client } = this.redis;
    const waiting = partitions.filter(({ isCaughtUp }) => isCaughtUp);
    const groups = client.isCluster ? waiting.map((partition) => [partition]) : [waiting];
    const replies = groups
      .filter((group) => group.length > 0)
      .map((group) => {
        const logs = group.map(({ keys }) => keys.eventLog);
        return client.xread('COUNT', 1, 'STREAMS', ...logs, ...group.map(({ lastRead }) => lastRead));
      });
    try {
      const moved = new Set(
        (await Promise.all(replies)).flatMap((reply) => (reply ?? []).map(([key]) => key)),
      );
      return partitions.filter(({ isCaughtUp, keys }) => !isCaughtUp || moved.has(keys.eventLog));
    } catch {
      // Reading each partition will show what is wrong with it.
      return partitions;
    }
  }

  /**
   * Queues deliveries for as long as one turn may take.
   * @returns whether there is more @throws StoreUnavailable, LeaseLost; the events are then read again.
   */
  async readPartition(partition: DispatchPartition, turn: Turn): Promise<boolean> {
    const deadline = performance.now() + TURN_BUDGET_MS;
    try {
      if (partition.unknown) {
        await this.queues.find(partition);
        partition.unknown = false;
      }
      let more = true;
      let isHeld = false;
      while (partition.active && turn.goesOn() && performance.now() < deadline) {
        const { isEmpty, isFull } = partition.backlog;
        if (more && !isFull && (isEmpty || isHeld || partition.toQueue <= 0)) {
          more = await this.readPage(partition, turn);
          partition.toQueue = PAGE;
          isHeld = false;
        } else if (isEmpty || isHeld) {
          return false;
        } else {
          isHeld = !(await this.queueBatch(partition, turn));
          partition.toQueue -= QUEUED_AT_ONCE;
        }
      }
      return true;
    } catch (error) {
      partition.beginAnew();
      throw error;
    }
  }

  /** Reads the next events into the backlog. @returns whether there may be more */
  private async readPage(partition: DispatchPartition, turn: Turn): Promise<boolean> {
    const { after } = partition;
    if (after === '>' && (await this.skipUnwanted(partition))) {
      return false;
    }
    const { events, more } = await this.readEvents(partition, after);
    if (!turn.goesOn()) {
      // Another turn may have taken over the partition; these events are read again.
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
  private async readEvents(
    { keys, token }: DispatchPartition,
    after: string,
  ): Promise<ScriptAnswer<'dispatch_page', 'HELD'>> {
    const snapshot = await this.redis.scripts.call('dispatch_page', keys, {
      token,
      leaseMs: this.config.webhookLeaseMs,
      take: 0,
      after,
      limit: PAGE,
    });
    if (snapshot.status !== 'HELD') {
      throw new LeaseLost();
    }
    if (snapshot.events.length > 0) {
      await this.subscriptions.refresh(snapshot.events.flatMap(({ event }) => event.get('tn') ?? []));
    }
    return snapshot;
  }

  /**
   * Skips all events of a partition that has never had a subscription, as long as operators have none either. Operators' subscriptions are
   * read after the end of the log is noted, so none misses an event.
   * @returns whether the events were skipped; if not, they must be read
   */
  private async skipUnwanted(partition: DispatchPartition): Promise<boolean> {
    if (partition.watched || this.subscriptions.hasTargets(SYSTEM_OWNER)) {
      return false;
    }
    const { keys, token } = partition;
    let reply = await this.redis.scripts.call('skip_events', keys, { token, upTo: '', entriesAdded: '' });
    if (reply.status === 'UP_TO') {
      await this.subscriptions.refresh([]);
      if (this.subscriptions.hasTargets(SYSTEM_OWNER)) {
        return false;
      }
      const { entryId: upTo, entriesAdded } = reply;
      reply = await this.redis.scripts.call('skip_events', keys, { token, upTo, entriesAdded });
      if (reply.status === 'SKIPPED') {
        partition.lastRead = upTo;
        return true;
      }
    }
    if (reply.status !== 'WATCHED') {
      throw new LeaseLost();
    }
    partition.watched = true;
    return false;
  }

  /** Queues the next deliveries, as many as one script makes. @returns false if all events wait for their queues */
  private async queueBatch(partition: DispatchPartition, turn: Turn): Promise<boolean> {
    const { tag, code, keys, token, backlog, term } = partition;
    const { toRefill } = backlog;
    if (toRefill !== undefined) {
      const { events } = await this.readEvents(partition, toRefill.after);
      backlog.refill(toRefill.tenant, events);
      return true;
    }
    return this.time.run(tag, async () => {
      if (!partition.active || !turn.goesOn() || partition.backlog !== backlog) {
        return true;
      }
      const { complete, deliveries } = backlog.takeBatch(
        QUEUED_AT_ONCE,
        (one) => this.wanted(code, one),
        (one) => waitingIn(partition, one) >= QUEUED_AHEAD,
      );
      if (complete.length === 0 && deliveries.length === 0) {
        this.counts.held.inc();
        return false;
      }
      const reply = await this.redis.scripts.call('queue_deliveries', keys, {
        token,
        retentionMs: this.config.webhookDeliveryRetentionMs,
        eventCount: complete.length,
        rest: [...complete, ...deliveries.flatMap(argumentsOf)],
      });
      if (reply.status !== 'QUEUED') {
        throw new LeaseLost();
      }
      this.metrics.of(MAINTENANCE_METRICS).trimmed.inc(reply.forgotten);
      this.counts.queued.inc({ result: 'queued' }, deliveries.length);
      if (partition.term !== term) {
        // Another instance may have held the partition meanwhile. The next turn finds its queues.
        return true;
      }
      const lengths = (reply.made ?? '').split(' ').map(Number);
      const unattempted = {
        partition: code,
        status: 'PENDING',
        createdMs: reply.nowMs,
        attempts: 0,
        dueInMs: 0,
      };
      for (const [index, { entryId, subscriptionId, tenant, event }] of deliveries.entries()) {
        const length = lengths[index] ?? 0;
        // A delivery that existed before is in its queue or done.
        if (length > 0) {
          const ref = `${entryId}:${subscriptionId}`;
          this.queues.push(partition, { ref, subscriptionId, tenant, event, ...unattempted }, length);
        }
      }
      return true;
    });
  }

  /** The deliveries of an event. A malformed event has none, so it does not block those behind it. */
  private wanted(partition: string, { entryId, event: fields }: LogEntry): WantedDelivery[] {
    if (!this.subscriptions.hasTargets(fields.get('tn') ?? '')) {
      return [];
    }
    try {
      const event = toEvent(partition, entryId, fields);
      const targets = this.subscriptions.matching(event);
      if (targets.length === 0) {
        return [];
      }
      const shared = { entryId, tenant: event.tenant_id, event: outgoing(event, fields) };
      return targets.map(({ subscriptionId }) => ({ ...shared, subscriptionId }));
    } catch (error) {
      this.counts.queued.inc({ result: 'failure' });
      this.logger.error(
        { err: error, partition, entry: entryId },
        'an event is malformed and will not be delivered',
      );
      return [];
    }
  }
}

/** How many deliveries wait in its queue, as far as this process knows. */
function waitingIn({ queues }: DispatchPartition, { subscriptionId, tenant }: WantedDelivery): number {
  return queues.get(`${subscriptionId}:${tenant}`)?.left ?? 0;
}

/** A delivery as lua/webhooks/queue_deliveries.lua takes it. */
function argumentsOf({ entryId, subscriptionId, tenant, event }: WantedDelivery): string[] {
  return [entryId, subscriptionId, tenant, event.signed.eventType, event.trace];
}
