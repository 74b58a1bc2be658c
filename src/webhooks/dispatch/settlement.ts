import { setTimeout as delay } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { deliveryKey, type NamedArgs, RedisService } from '../../redis/index.js';
import { deliveryIdOf, hasEnded, queueNameOf, type Delivery, type Verdict } from './delivery.js';
import { DispatchMetrics } from './dispatch.metrics.js';
import { SubscriptionTally } from './subscription-tally.js';

/** What is to be written down waits so long for others: each write to Redis' socket costs more than what is in it. */
const TOGETHER_MS = 4;

/** What a verdict says to `settle_delivery`. */
type SettleArguments = Pick<
  NamedArgs<'settle_delivery'>,
  'outcome' | 'attempted' | 'durationMs' | 'responseStatus' | 'message' | 'retryInMs' | 'announce' | 'reason'
>;

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
    const { tag, ref, event, subscriptionId } = delivery;
    const said = argumentsOf(verdict);
    const trace = event?.trace ?? '';
    await this.gathered();
    const reply = await this.redis.scripts.call(
      'settle_delivery',
      { delivery: deliveryKey(tag, ref) },
      {
        ref,
        queue: queueNameOf(delivery),
        ...said,
        subscriptionId,
        deliveryId: hasEnded(delivery) ? '' : deliveryIdOf(delivery),
        eventId: event?.signed.eventId ?? '',
        trace,
      },
    );
    if (!hasEnded(delivery)) {
      this.metrics.countVerdict(delivery, verdict);
    }
    if (reply.status === 'SETTLED') {
      if (said.outcome === 'SUCCESS') {
        this.tally.succeeded(delivery);
      } else if (said.announce === 1) {
        this.metrics.deadLetters.inc();
        await this.tally.failed(delivery, trace);
      } else if (said.attempted === 1) {
        this.tally.triggered(delivery);
      }
    }
    return reply.leftInQueue;
  }

  private gathered(): Promise<void> {
    this.gathering ??= delay(TOGETHER_MS).then(() => {
      this.gathering = undefined;
    });
    return this.gathering;
  }
}

function argumentsOf(verdict: Verdict): SettleArguments {
  const { outcome } = verdict;
  const none = {
    attempted: 1,
    durationMs: 0,
    responseStatus: '',
    message: '',
    retryInMs: 0,
    announce: 0,
    reason: '',
  } as const;
  switch (outcome) {
    case 'SUCCESS':
      return { ...none, outcome, durationMs: verdict.durationMs, responseStatus: verdict.status };
    case 'RETRYING':
    case 'FAILED': {
      const { status: responseStatus = '', ...failure } = verdict.failure;
      return outcome === 'FAILED'
        ? { ...none, ...failure, outcome, responseStatus, announce: 1 }
        : { ...none, ...failure, outcome, responseStatus, retryInMs: verdict.retryInMs };
    }
    case 'GIVEN_UP': {
      // What nobody is there to receive is no failure of an endpoint; one that became too old is.
      const { reason, message } = verdict;
      return {
        ...none,
        outcome: 'FAILED',
        attempted: 0,
        reason,
        message,
        announce: reason === 'stale' ? 1 : 0,
      };
    }
  }
}
