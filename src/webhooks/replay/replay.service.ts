import { Injectable } from '@nestjs/common';
import { ArrayMaxSize, IsArray, IsIn } from 'class-validator';
import type { Answer } from '../../answers/index.js';
import type { Caller } from '../../auth/index.js';
import { type CyclesEvent, EventFeed } from '../../events/index.js';
import { DAY_MS, EVENT_TYPES, invalidField, randomBase62, Refusal } from '../../ledger/index.js';
import { RedisService, replayKey, SYSTEM_OWNER, tagOfTenant, webhookKey } from '../../redis/index.js';
import { MetricsRegistry } from '../../telemetry/index.js';
import { instantMs, IsDateTime, IsInt, Optional, type Origin } from '../../wire/index.js';
import { type DispatchTarget, matches } from '../subscriptions/dispatch-target.js';
import { SubscriptionAccess, webhookRefusal } from '../subscriptions/subscription-access.js';
import { type Queued, ReplayQueue } from './replay-queue.js';
import { WEBHOOK_METRICS } from '../webhooks.metrics.js';

const MAX_TYPES = 100;
export const MAX_EVENTS = 1000;

/** The body of replayEvents of cycles-governance-admin-v0.1.25. Both bounds are included. */
export class ReplayDto {
  @Optional(IsDateTime())
  from?: string;

  @Optional(IsDateTime())
  to?: string;

  @Optional()
  @IsArray()
  @ArrayMaxSize(MAX_TYPES)
  @IsIn(EVENT_TYPES, { each: true })
  event_types?: string[];

  @Optional(IsInt({ min: 1, max: MAX_EVENTS }))
  max_events?: number;
}

/** Entries of the event log that one replay examines: a quarter of a second of Redis' time, in slices of a millisecond. */
const SCAN_LIMIT = 50_000;
const DEFAULT_MAX_EVENTS = 100;

/** Finds the events of a replay: all of them, or none. */
@Injectable()
export class ReplaySelection {
  constructor(private readonly feed: EventFeed) {}

  /**
   * The events in the window that the subscription's selectors, scope filter and owner select, oldest first.
   * @param scanLimit the most entries to examine; merging partitions may examine a few more
   * @throws Refusal INVALID_REQUEST if the window holds more than `max_events` of them, or more entries than `scanLimit`; StoreUnavailable
   */
  async select(
    target: DispatchTarget,
    request: ReplayDto,
    scanLimit = SCAN_LIMIT,
  ): Promise<readonly CyclesEvent[]> {
    const { max_events: limit = DEFAULT_MAX_EVENTS, event_types: types } = request;
    const { owner } = target;
    const search = {
      direction: 'asc' as const,
      fromMs: instantMs(request.from),
      toMs: instantMs(request.to),
      tenantId: owner === SYSTEM_OWNER ? undefined : owner,
      correlationId: undefined,
      conditions: [],
      matches: (event: CyclesEvent) =>
        (types === undefined || types.includes(event.event_type)) && matches(target, event),
    };
    const { events, next, endedEarly } = await this.feed.page(search, { limit, after: undefined }, scanLimit);
    if (endedEarly) {
      throw new Refusal(
        'INVALID_REQUEST',
        `the window holds more than the ${scanLimit} events that one replay examines; narrow from and to`,
        { field: 'from', scan_limit: scanLimit },
      );
    }
    if (next !== undefined) {
      throw new Refusal(
        'INVALID_REQUEST',
        `the window holds more than ${limit} events for this subscription; narrow from and to${limit < MAX_EVENTS ? ' or raise max_events' : ''}`,
        { field: 'max_events', max_events: limit },
      );
    }
    return events;
  }
}

/** A replay whose instance died while queuing blocks the next one for at most this long. */
const LEASE_MS = 60_000;
/** A delivery without a first attempt by then fails as stale. */
const WAITING_MS = DAY_MS;
const NOTHING: Queued = { count: 0, last: [] };

/** The response of replayEvents of cycles-governance-admin-v0.1.25. */
export type ReplayResult = Answer<'WebhookReplayResponse'>;

/**
 * POST .../replay. Selects all matching events or none, and queues them in order as new deliveries, in the ordered queues of first
 * attempts. The replay is in progress until each of these deliveries had its first attempt. A subscription has at most one at a time.
 */
@Injectable()
export class ReplayService {
  constructor(
    private readonly redis: RedisService,
    private readonly subscriptions: SubscriptionAccess,
    private readonly selection: ReplaySelection,
    private readonly queue: ReplayQueue,
    private readonly metrics: MetricsRegistry,
  ) {}

  /** @throws Refusal WEBHOOK_NOT_FOUND, INVALID_REQUEST, TENANT_CLOSED, REPLAY_IN_PROGRESS; StoreUnavailable */
  async replay(
    caller: Caller,
    subscriptionId: string,
    request: ReplayDto,
    origin: Origin,
  ): Promise<ReplayResult> {
    const target = await this.subscriptions.find(caller, subscriptionId, { forChange: true });
    requireWindow(request);
    const tag = tagOfTenant(target.owner, this.redis.partitions);
    const events =
      target.status === 'ACTIVE'
        ? await this.selection.select(target, request).catch((error: unknown) => this.rejected(error))
        : [];
    const replayId = `rpl_${randomBase62(16)}`;
    const keys = { webhook: webhookKey(tag, subscriptionId), replay: replayKey(tag, subscriptionId) };
    const isStarted = await this.start(keys, target, replayId);
    const { count, last } = isStarted ? await this.queue.queue(subscriptionId, replayId, events) : NOTHING;
    await this.redis.scripts.call('finish_replay', keys, {
      subscriptionId,
      tenantId: target.owner,
      replayId,
      waiting: last.map(({ partition, ref }) => `${partition} ${ref}`).join(' '),
      waitingMs: WAITING_MS,
      ...origin,
      eventsQueued: count,
      rest: detailsOf(request),
    });
    const counts = this.metrics.of(WEBHOOK_METRICS);
    counts.replays.inc({ result: isStarted ? 'accepted' : 'inactive' });
    counts.replayedEvents.inc(count);
    return { replay_id: replayId, events_queued: count };
  }

  /** @returns false if the subscription is not active. @throws Refusal */
  private async start(
    keys: { webhook: string; replay: string },
    { owner }: DispatchTarget,
    replayId: string,
  ): Promise<boolean> {
    for (let knownDone = ''; ;) {
      const reply = await this.redis.scripts.call('start_replay', keys, {
        tenantId: owner,
        replayId,
        leaseMs: LEASE_MS,
        knownDone,
      });
      switch (reply.status) {
        case 'STARTED':
          return true;
        case 'INACTIVE':
          return false;
        case 'WAITING':
          if (await this.queue.isWaiting(reply.places)) {
            throw this.inProgress();
          }
          knownDone = reply.replayId;
          break;
        case 'IN_PROGRESS':
          throw this.inProgress();
        default:
          throw webhookRefusal(reply);
      }
    }
  }

  private rejected(error: unknown): never {
    if (error instanceof Refusal) {
      this.metrics.of(WEBHOOK_METRICS).replays.inc({ result: 'rejected' });
    }
    throw error;
  }

  private inProgress(): Refusal {
    this.metrics.of(WEBHOOK_METRICS).replays.inc({ result: 'in_progress' });
    return new Refusal(
      'REPLAY_IN_PROGRESS',
      'a replay to this subscription is in progress: some of its deliveries had no attempt yet',
    );
  }
}

function requireWindow({ from, to }: ReplayDto): void {
  const [fromMs, toMs] = [instantMs(from), instantMs(to)];
  if (fromMs !== undefined && toMs !== undefined && fromMs > toMs) {
    throw invalidField('from', 'from must not be later than to');
  }
}

/** The request, as the audit row shows it. */
function detailsOf({ from, to, event_types: types, max_events: limit }: ReplayDto): string[] {
  const details: [string, string | undefined][] = [
    ['from', from],
    ['to', to],
    ['event_types', types?.join(',')],
    ['max_events', limit?.toString()],
  ];
  return details.flatMap(([name, value]) => (value === undefined ? [] : [name, value]));
}
