import { Injectable } from '@nestjs/common';
import { deliveryKey, RedisService, tagOf } from '../../redis/index.js';
import { MetricsRegistry, Tracing } from '../../telemetry/index.js';
import { WEBHOOK_METRICS, type WebhookCounts } from '../webhooks.metrics.js';
import { type Delivery, deliveryIdOf, hasEnded, type Verdict } from './delivery.js';
import { SubscriptionTally } from './subscription-tally.js';

/** How long an outcome waits for others before it is sent. A write to Redis' socket costs more than the command in it. */
const TOGETHER_MS = 4;

/** Records what became of deliveries. */
@Injectable()
export class Outcomes {
  private readonly counts = this.metrics.of(WEBHOOK_METRICS);
  /** Those that are not sent yet. */
  private readonly unsent: (() => void)[] = [];

  constructor(
    private readonly redis: RedisService,
    private readonly tally: SubscriptionTally,
    private readonly tracing: Tracing,
    private readonly metrics: MetricsRegistry,
  ) {}

  /**
   * Records a verdict: one script updates the delivery and its queue, then the subscription's counts and the metrics follow.
   * @returns how many deliveries are left in its ordered queue.
   * @throws StoreUnavailable. The delivery is then unchanged, unless only the reply was lost. A failed first
   * attempt that cannot be stored as a retry leaves its delivery first in its queue.
   */
  async settle(delivery: Delivery, verdict: Verdict): Promise<number> {
    const { partition, ref, event, subscriptionId, tenant } = delivery;
    const { outcome, durationMs, status, reason = '', message = '', text = '', retryInMs = 0 } = verdict;
    const isAttempt = durationMs !== undefined;
    // Without a subscription there is no endpoint that could have failed. A delivery that became too old is a failure.
    const isDeadLetter = outcome === 'FAILED' && (isAttempt || reason === 'stale');
    const keys = { delivery: deliveryKey(tagOf(partition), ref) };
    if (outcome === 'RETRYING' && delivery.status === 'PENDING') {
      await this.redis.scripts.call('plan_retry', keys, { ref, retryInMs }).catch((error: unknown) => {
        // For example, Redis is full.
        this.counts.retriesNotStored.inc();
        throw error;
      });
    }
    const args = {
      ref,
      queue: `${subscriptionId}:${tenant}`,
      outcome,
      attempted: isAttempt ? 1 : 0,
      durationMs: durationMs ?? 0,
      responseStatus: status ?? '',
      message,
      retryInMs,
      announce: isDeadLetter ? 1 : 0,
      reason,
      subscriptionId,
      deliveryId: isDeadLetter ? deliveryIdOf(delivery) : '',
      eventId: event?.signed.eventId ?? '',
      trace: event?.trace ?? '',
      requestId: event?.signed.requestId ?? '',
      answer: text,
    };
    const reply = await this.together(() =>
      this.tracing.within(verdict.span, () => this.redis.scripts.call('settle_delivery', keys, args)),
    );
    if (!hasEnded(delivery)) {
      countVerdict(this.counts, delivery, verdict);
    }
    if (reply.status === 'SETTLED' && isDeadLetter) {
      this.counts.deadLetters.inc();
      await this.tally.failed(delivery, status);
    } else if (reply.status === 'SETTLED' && isAttempt) {
      this.tally.note(subscriptionId, outcome === 'SUCCESS' ? 'success' : 'triggered');
    }
    return reply.leftInQueue;
  }

  /** Sends a command together with all others of the next few milliseconds. */
  private together<T>(send: () => Promise<T>): Promise<T> {
    return new Promise((resolve) => {
      if (this.unsent.push(() => resolve(send())) === 1) {
        setTimeout(
          () => this.redis.inOneWrite(() => this.unsent.splice(0).forEach((sendNow) => sendNow())),
          TOGETHER_MS,
        );
      }
    });
  }
}

function countVerdict(
  counts: WebhookCounts,
  delivery: Delivery,
  { outcome, durationMs, status = 0, reason }: Verdict,
): void {
  const labels = labelsOf(delivery);
  const isSuccess = outcome === 'SUCCESS';
  if (isSuccess) {
    counts.successes.inc({ ...labels, status_code_family: `${Math.floor(status / 100)}xx` });
  } else {
    counts.failures.inc({ ...labels, reason });
  }
  if (durationMs !== undefined) {
    counts.latency.observe(durationMs / 1000, { ...labels, outcome: isSuccess ? 'success' : 'failure' });
  }
  if (outcome === 'RETRYING') {
    counts.retries.inc(labels);
  }
  if (reason === 'stale') {
    counts.stale.inc({ tenant: 'UNKNOWN' });
  }
}

/** The tenant and the type of the event that is delivered. */
export function labelsOf({ tenant, event }: Delivery): { tenant: string; event_type: string } {
  return { tenant, event_type: event?.signed.eventType ?? '' };
}
