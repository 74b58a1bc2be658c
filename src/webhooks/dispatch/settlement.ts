import { setTimeout as delay } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { deliveryKey, RedisService } from '../../redis/index.js';
import { deliveryIdOf } from './delivery-id.js';
import { type Delivery, labelsOf, laneOf, type Verdict } from './delivery.js';
import { DispatchMetrics } from './dispatch.metrics.js';
import { Outcomes } from './outcomes.js';

/** What is to be written down waits so long for others: each write to Redis' socket costs more than what is in it. */
const TOGETHER_MS = 4;

/** What `settle_delivery` is told beside where the delivery is. */
interface Telling {
  readonly outcome: 'SUCCESS' | 'RETRYING' | 'FAILED';
  readonly attempted: 0 | 1;
  readonly durationMs: number;
  readonly status?: number | undefined;
  readonly message: string;
  readonly retryInMs: number;
  readonly announce: 0 | 1;
  readonly reason: string;
}

/** Writes verdicts down: in the delivery's record and lane by one script, then in the subscription's bookkeeping, and in the metrics. */
@Injectable()
export class Settlement {
  private gathering: Promise<void> | undefined;

  constructor(
    private readonly redis: RedisService,
    private readonly outcomes: Outcomes,
    private readonly metrics: DispatchMetrics,
  ) {}

  /**
   * @returns how many deliveries are left in its lane.
   * @throws StoreUnavailable; the delivery is then as it was, unless only the reply was lost.
   */
  async settle(delivery: Delivery, verdict: Verdict): Promise<number> {
    const { tag, ref, event } = delivery;
    const { outcome, attempted, durationMs, status, message, retryInMs, announce, reason } =
      tellingOf(verdict);
    const trace = event?.trace ?? '';
    await this.gathered();
    const reply = await this.redis.scripts.run(
      'settle_delivery',
      [deliveryKey(tag, ref)],
      [
        ref,
        laneOf(delivery),
        outcome,
        attempted,
        durationMs,
        status ?? '',
        message,
        retryInMs,
        announce,
        reason,
        delivery.subscriptionId,
        delivery.ended ? '' : deliveryIdOf(delivery),
        event?.signed.eventId ?? '',
        trace,
      ],
    );
    if (!delivery.ended) {
      this.count(delivery, verdict);
    }
    if (reply[0] === 'SETTLED') {
      if (outcome === 'SUCCESS') {
        this.outcomes.succeeded(delivery);
      } else if (announce === 1) {
        this.metrics.deadLetter();
        await this.outcomes.failed(delivery, trace);
      } else if (attempted === 1) {
        this.outcomes.triggered(delivery);
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
    const labels = labelsOf(delivery);
    switch (verdict.outcome) {
      case 'SUCCESS':
        this.metrics.attemptSucceeded(labels, verdict.status, verdict.durationMs);
        break;
      case 'RETRYING':
        this.metrics.retryPlanned(labels);
        this.metrics.attemptFailed(labels, verdict.failure.reason, verdict.failure.durationMs);
        break;
      case 'FAILED':
        this.metrics.attemptFailed(labels, verdict.failure.reason, verdict.failure.durationMs);
        break;
      case 'GIVEN_UP':
        this.metrics.givenUp(labels, verdict.reason);
        break;
    }
  }
}

function tellingOf(verdict: Verdict): Telling {
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
