import { Injectable } from '@nestjs/common';
import type { Caller } from '../../auth/index.js';
import type { Origin } from '../../governance/index.js';
import { instantMs } from '../../http/index.js';
import { randomBase62, Refusal } from '../../ledger/index.js';
import {
  partitionCode,
  partitionOfTenant,
  RedisService,
  replayKey,
  tagOf,
  webhookKey,
} from '../../redis/index.js';
import { SubscriptionAccess, webhookRefusal, type DispatchTarget } from '../subscriptions/index.js';
import type { ReplayDto } from './replay.dto.js';
import { ReplayMetrics } from './replay.metrics.js';
import { ReplayQueue, type Queued, type QueuedDelivery } from './replay-queue.js';
import { ReplaySelection } from './replay-selection.js';

/** A replay whose instance died while it queued blocks the next one no longer than this. */
const LEASE_MS = 60_000;
/** What was not tried by then fails as stale. */
const WAITING_MS = 86_400_000;
const NOTHING: Queued = { count: 0, last: [] };

/** The answer of replayEvents of cycles-governance-admin-v0.1.25. */
export interface ReplayResult {
  readonly replay_id: string;
  readonly events_queued: number;
}

/**
 * POST .../replay. Events are chosen completely or not at all, and then queued as new deliveries, in their order, in the lanes in which
 * first attempts wait. A replay is in progress until all that it queued was tried once, and meanwhile there is no other one.
 */
@Injectable()
export class ReplayService {
  constructor(
    private readonly redis: RedisService,
    private readonly subscriptions: SubscriptionAccess,
    private readonly selection: ReplaySelection,
    private readonly queue: ReplayQueue,
    private readonly metrics: ReplayMetrics,
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
    const tag = tagOf(partitionCode(partitionOfTenant(target.owner, this.redis.partitions)));
    const events =
      target.status === 'ACTIVE' ? await this.metrics.rejections(this.selection.select(target, request)) : [];
    const replayId = `rpl_${randomBase62(16)}`;
    const keys = [webhookKey(tag, subscriptionId), replayKey(tag, subscriptionId)] as const;
    const isStarted = await this.start(keys, target, replayId);
    const { count, last } = isStarted ? await this.queue.queue(subscriptionId, replayId, events) : NOTHING;
    await this.redis.scripts.run('finish_replay', keys, [
      subscriptionId,
      target.owner,
      replayId,
      last.flat().join(' '),
      WAITING_MS,
      ...origin,
      count,
      ...detailsOf(request),
    ]);
    this.metrics.accepted(isStarted, count);
    return { replay_id: replayId, events_queued: count };
  }

  /** @returns false when the subscription receives nothing at the moment. @throws Refusal */
  private async start(
    keys: readonly [string, string],
    { owner }: DispatchTarget,
    replayId: string,
  ): Promise<boolean> {
    for (let knownDone = ''; ;) {
      const [word, lastId = '', ...waiting] = await this.redis.scripts.run('start_replay', keys, [
        owner,
        replayId,
        LEASE_MS,
        knownDone,
      ]);
      switch (word) {
        case 'STARTED':
          return true;
        case 'INACTIVE':
          return false;
        case 'WAITING':
          if (await this.queue.isWaiting(pairsOf(waiting))) {
            throw this.inProgress();
          }
          knownDone = lastId;
          break;
        case 'IN_PROGRESS':
          throw this.inProgress();
        default:
          throw webhookRefusal([word ?? '']);
      }
    }
  }

  private inProgress(): Refusal {
    this.metrics.inProgress();
    return new Refusal(
      'REPLAY_IN_PROGRESS',
      'a replay to this subscription is in progress: not all of its deliveries were tried yet',
    );
  }
}

function requireWindow({ from, to }: ReplayDto): void {
  const [fromMs, toMs] = [instantMs(from), instantMs(to)];
  if (fromMs !== undefined && toMs !== undefined && fromMs > toMs) {
    throw new Refusal('INVALID_REQUEST', 'from must not be later than to', { field: 'from' });
  }
}

function pairsOf(words: readonly string[]): QueuedDelivery[] {
  return words.flatMap((word, index) => (index % 2 === 0 ? [[word, words[index + 1] ?? ''] as const] : []));
}

/** What was asked for, as the audit row shows it. */
function detailsOf({ from, to, event_types: types, max_events: limit }: ReplayDto): string[] {
  const details: [string, string | undefined][] = [
    ['from', from],
    ['to', to],
    ['event_types', types?.join(',')],
    ['max_events', limit?.toString()],
  ];
  return details.flatMap(([name, value]) => (value === undefined ? [] : [name, value]));
}
