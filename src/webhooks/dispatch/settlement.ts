import { setTimeout as delay } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { deliveryKey, RedisService } from '../../redis/index.js';
import { deliveryIdOf, hasEnded, queueNameOf, type Delivery, type Verdict } from './delivery.js';
import { DispatchMetrics } from './dispatch.metrics.js';
import { SubscriptionTally } from './subscription-tally.js';

/** What is to be written down waits so long for others: each write to Redis' socket costs more than what is in it. */
const TOGETHER_MS = 4;

/** What `settle_delivery` is told beside where the delivery is. */
interface SettleArguments {
  readonly outcome: 'SUCCESS' | 'RETRYING' | 'FAILED';
  readonly attempted: 0 | 1;
  readonly durationMs: number;
  readonly status?: number | undefined;
  readonly message: string;
  readonly retryInMs: number;
  readonly announce: 0 | 1;
  readonly reason: string;
}

/** Writes verdicts down: in the delivery's record and its queue by one script, then in the subscription's bookkeeping, and in the metrics. */
@Injectable()
export class Settlement {
  private gathering: Promise<void> | undefined;

  constructor(
    private readonly redis: RedisService,
    private readonly tally: SubscriptionTally,
    private readonly metrics: DispatchMetrics,
  ) {}

  /**
   * @returns how many deliveries are left in its ordered queue.
   * @throws StoreUnavailable; the delivery is then as it was, unless only the reply was lost.
   */
  async settle(delivery: Delivery, verdict: Verdict): Promise<number> {
    const { tag, ref, event } = delivery;
    const { outcome, attempted, durationMs, status, message, retryInMs, announce, reason } =
      argumentsOf(verdict);
    const trace = event?.trace ?? '';
    await this.gathered();
    const reply = await this.redis.scripts.run(
      'settle_delivery',
      [deliveryKey(tag, ref)],
      [
        ref,
        queueNameOf(delivery),
        outcome,
        attempted,
        durationMs,
        status ?? '',
        message,
        retryInMs,
        announce,
        reason,
        delivery.subscriptionId,
        hasEnded(delivery) ? '' : deliveryIdOf(delivery),
        event?.signed.eventId ?? '',
        trace,
      ],
    );
    if (!hasEnded(delivery)) {
      this.count(delivery, verdict);
    }
    if (reply[0] === 'SETTLED') {
      if (outcome === 'SUCCESS') {
        this.tally.succeeded(delivery);
      } else if (announce === 1) {
        this.metrics.deadLetter();
        await this.tally.failed(delivery, trace);
      } else if (attempted === 1) {
        this.tally.triggered(delivery);
      }
    }
    return Number(reply.at(-1));
  }

  private gathered(): Promise<void> {
    this.gathering ??= delay(TOGETHER_MS).then(() => {
      this.gathering = undefined;
    });
    return this.gathering;
  }

  private count(delivery: Delivery, verdict: Verdict): void {
    switch (verdict.outcome) {
      case 'SUCCESS':
        this.metrics.attemptSucceeded(delivery, verdict.status, verdict.durationMs);
        break;
      case 'RETRYING':
        this.metrics.retryPlanned(delivery);
        this.metrics.attemptFailed(delivery, verdict.failure.reason, verdict.failure.durationMs);
        break;
      case 'FAILED':
        this.metrics.attemptFailed(delivery, verdict.failure.reason, verdict.failure.durationMs);
        break;
      case 'GIVEN_UP':
        this.metrics.givenUp(delivery, verdict.reason);
        break;
    }
  }
}

function argumentsOf(verdict: Verdict): SettleArguments {
  const plain = { attempted: 1, durationMs: 0, message: '', retryInMs: 0, announce: 0, reason: '' } as const;
  switch (verdict.outcome) {
    case 'SUCCESS':
      return { ...plain, ...verdict };
    case 'RETRYING':
      return { ...plain, ...verdict.failure, outcome: 'RETRYING', retryInMs: verdict.retryInMs };
    case 'FAILED':
      return { ...plain, ...verdict.failure, outcome: 'FAILED', announce: 1 };
    case 'GIVEN_UP':
      // What nobody is there to receive is no failure of an endpoint; one that became too old is.
      return {
        ...plain,
        outcome: 'FAILED',
        attempted: 0,
        reason: verdict.reason,
        message: verdict.message,
        announce: verdict.reason === 'stale' ? 1 : 0,
      };
  }
}
