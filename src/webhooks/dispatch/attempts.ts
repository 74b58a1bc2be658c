import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { signedHeaders } from '../signing/signing.js';
import type { DispatchTarget } from '../subscriptions/dispatch-target.js';
import { SubscriptionBook } from '../subscriptions/subscription-cache.js';
import { WebhookTransport } from '../transport/webhook-transport.js';
import { retryDelayMs } from './backoff.js';
import {
  type AttemptFailure,
  bornMs,
  type Delivery,
  type GivenUpReason,
  labelsOf,
  type Verdict,
} from './delivery.js';
import { DispatchMetrics } from './dispatch.metrics.js';
import { OpenedTargets } from './opened-targets.js';
import type { OutgoingEvent } from './outgoing-event.js';

const MESSAGE_MAX_LENGTH = 512;

const GIVEN_UP: Readonly<Record<GivenUpReason, string>> = {
  event_not_found: 'the event is not in the log any more',
  subscription_not_found: 'the subscription was deleted',
  subscription_inactive: 'the subscription is not active',
  stale: 'the delivery was too old when its turn came',
};

/** Nothing was begun, for a reason that is not the endpoint's: the delivery is attempted again soon, and nothing counts against it. */
export class AttemptPostponed extends Error {
  override readonly name = 'AttemptPostponed';
}

/** One turn of a delivery: whether it is still wanted, and if so one signed POST. The subscription is read anew for each. */
@Injectable()
export class Attempts {
  constructor(
    private readonly book: SubscriptionBook,
    private readonly targets: OpenedTargets,
    private readonly transport: WebhookTransport,
    private readonly metrics: DispatchMetrics,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
  ) {}

  /**
   * @param nowMs Redis' time
   * @throws StoreUnavailable when the subscription cannot be read, AttemptPostponed; nothing was sent then.
   */
  async take(delivery: Delivery, nowMs: number): Promise<Verdict> {
    const { event } = delivery;
    if (event === undefined) {
      return givenUp('event_not_found');
    }
    if (nowMs - delivery.createdMs > this.config.webhookStaleAfterMs) {
      return givenUp('stale');
    }
    const target = await this.book.find(delivery.subscriptionId);
    if (target === undefined) {
      return givenUp('subscription_not_found');
    }
    if (target.status !== 'ACTIVE') {
      return givenUp('subscription_inactive');
    }
    this.metrics.attemptStarted(
      labelsOf(delivery),
      delivery.attempts === 0 ? nowMs - bornMs(delivery) : undefined,
    );
    return this.send(delivery, event, target);
  }

  private async send({ attempts }: Delivery, event: OutgoingEvent, target: DispatchTarget): Promise<Verdict> {
    const opened = this.targets.open(target);
    if (opened === undefined) {
      const message =
        'the signing secret or the headers of the subscription cannot be decrypted; nothing was sent';
      return failed(target, attempts + 1, { reason: 'signing_key_unavailable', message, durationMs: 0 });
    }
    const { body } = event;
    const headers = signedHeaders({ ...opened, event: event.signed, body });
    const { ok, status, durationMs, error, reason, retryAfterMs } = await this.transport.post({
      owner: target.owner,
      url: target.url,
      headers,
      body,
      timeoutMs: this.config.webhookTimeoutMs,
    });
    if (ok) {
      return { outcome: 'SUCCESS', durationMs, status: status ?? 0 };
    }
    if (reason === 'lookups_busy') {
      this.metrics.attemptPostponed();
      throw new AttemptPostponed(error);
    }
    const message = (error ?? 'the attempt failed').slice(0, MESSAGE_MAX_LENGTH);
    return failed(
      target,
      attempts + 1,
      { reason: reason ?? 'transport_error', message, durationMs, status },
      retryAfterMs,
    );
  }
}

export function givenUp(reason: GivenUpReason): Verdict {
  return { outcome: 'GIVEN_UP', reason, message: GIVEN_UP[reason] };
}

/** @param attempts those made, this one included */
function failed({ retry }: DispatchTarget, attempts: number, failure: AttemptFailure, askedMs = 0): Verdict {
  return attempts > retry.maxRetries
    ? { outcome: 'FAILED', failure }
    : { outcome: 'RETRYING', failure, retryInMs: retryDelayMs(retry, attempts, askedMs) };
}
