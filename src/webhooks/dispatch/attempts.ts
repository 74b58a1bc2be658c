import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { SealBroken, SecretBox } from '../signing/secret-box.js';
import { openMaterial, signedHeaders, type SigningMaterial } from '../signing/signing.js';
import type { DispatchTarget } from '../subscriptions/dispatch-target.js';
import { SubscriptionCache } from '../subscriptions/subscription-cache.js';
import { WebhookTransport } from '../transport/webhook-transport.js';
import { bornMs, type AttemptFailure, type Delivery, type GivenUpReason, type Verdict } from './delivery.js';
import { DispatchMetrics } from './dispatch.metrics.js';

const MESSAGE_MAX_LENGTH = 512;
/** Retries of deliveries that failed together are spread over this share of their delay, always later and never earlier. */
const JITTER_SHARE = 0.1;

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
  /** What signs the deliveries of a subscription is decrypted once for as long as its record stays the same. */
  private readonly opened = new WeakMap<DispatchTarget, SigningMaterial>();

  constructor(
    private readonly subscriptions: SubscriptionCache,
    private readonly box: SecretBox,
    private readonly transport: WebhookTransport,
    private readonly metrics: DispatchMetrics,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
  ) {}

  /**
   * @param nowMs Redis' time
   * @throws StoreUnavailable when the subscription cannot be read, AttemptPostponed; nothing was sent then.
   */
  async attempt(delivery: Delivery, nowMs: number): Promise<Verdict> {
    if (delivery.event === undefined) {
      return givenUp('event_not_found');
    }
    if (nowMs - delivery.createdMs > this.config.webhookStaleAfterMs) {
      return givenUp('stale');
    }
    const target = await this.subscriptions.find(delivery.subscriptionId);
    if (target === undefined) {
      return givenUp('subscription_not_found');
    }
    if (target.status !== 'ACTIVE') {
      return givenUp('subscription_inactive');
    }
    this.metrics.attemptStarted(delivery, delivery.attempts === 0 ? nowMs - bornMs(delivery) : undefined);
    return this.send(delivery, target);
  }

  private async send({ attempts, event }: Delivery, target: DispatchTarget): Promise<Verdict> {
    const opened = this.open(target);
    if (opened === undefined || event === undefined) {
      const message =
        'the signing secret or the headers of the subscription cannot be decrypted; nothing was sent';
      return failed(target, attempts + 1, { reason: 'signing_key_unavailable', message, durationMs: 0 });
    }
    const { body } = event;
    const { ok, status, durationMs, error, reason, retryAfterMs } = await this.transport.post({
      owner: target.owner,
      url: target.url,
      headers: signedHeaders({ ...opened, event: event.signed, body }),
      body,
      timeoutMs: this.config.webhookTimeoutMs,
    });
    if (ok) {
      return { outcome: 'SUCCESS', durationMs, status: status ?? 0 };
    }
    if (reason === 'lookups_busy') {
      this.metrics.postponed.inc();
      throw new AttemptPostponed(error);
    }
    const message = (error ?? 'the attempt failed').slice(0, MESSAGE_MAX_LENGTH);
    const failure = { reason: reason ?? 'transport_error', message, durationMs, status };
    return failed(target, attempts + 1, failure, retryAfterMs);
  }

  /** @returns undefined when what is stored cannot be decrypted: nothing may be sent unsigned. */
  private open(target: DispatchTarget): SigningMaterial | undefined {
    try {
      const material = this.opened.get(target) ?? openMaterial(this.box, target);
      this.opened.set(target, material);
      return material;
    } catch (error) {
      if (error instanceof SealBroken) {
        return undefined;
      }
      throw error;
    }
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

/**
 * How long to wait before the next attempt, in ms: initial * multiplier ^ (retries so far), at most the policy's maximum, and a little
 * more, so that an endpoint which comes back is not met by all its deliveries in one moment. What the endpoint itself asked for is kept.
 * @param attempts those made so far, 1 or more
 * @param askedMs  from the endpoint's Retry-After, already bounded
 */
export function retryDelayMs(policy: DispatchTarget['retry'], attempts: number, askedMs = 0): number {
  const delayMs = Math.min(policy.initialDelayMs * policy.multiplier ** (attempts - 1), policy.maxDelayMs);
  const spreadMs = Math.max(delayMs, askedMs) * JITTER_SHARE * Math.random();
  return Math.round(Math.max(delayMs, askedMs) + spreadMs);
}
