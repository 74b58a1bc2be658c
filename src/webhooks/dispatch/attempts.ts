import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { MetricsRegistry, type Span, spanIdFrom, Tracing } from '../../telemetry/index.js';
import { traceOfDelivery } from '../signing/signing.js';
import type { DispatchTarget } from '../subscriptions/dispatch-target.js';
import { SubscriptionCache } from '../subscriptions/subscription-cache.js';
import type { AttemptOutcome } from '../transport/attempt.js';
import { SignedPosts } from '../transport/signed-posts.js';
import {
  type Attempted,
  type Delivery,
  deliveryIdOf,
  hasEnded,
  type OutgoingEvent,
  partsOfRef,
  type Verdict,
} from './delivery.js';
import { EventGroup } from './event-group.js';
import { labelsOf, Outcomes } from './outcomes.js';
import { WEBHOOK_METRICS } from '../webhooks.metrics.js';

const MESSAGE_MAX_LENGTH = 512;
/** Retries are delayed by up to this share more, so that deliveries that failed together are not retried together. */
const JITTER_SHARE = 0.1;

const HTTP_GONE = 410;

/** Why a delivery is given up without an attempt. */
const GIVEN_UP = {
  event_not_found: 'the event is not in the log any more',
  subscription_not_found: 'the subscription was deleted',
  subscription_inactive: 'the subscription is not active',
  stale: 'the delivery was too old when its turn came',
} as const;

/** The attempt did not start, for a reason that is not the endpoint's fault. It is tried again soon and does not count as a failure. */
export class AttemptPostponed extends Error {
  override readonly name = 'AttemptPostponed';
}

/** Takes the deliveries behind the first one of a request, as long as they fit. */
export type TakeWhile = (fits: (delivery: Delivery) => boolean) => readonly Delivery[];

/** What a request came to: an answer of 2xx, or a failure with its reason. */
type Answer = Omit<AttemptOutcome, 'reason'> & { readonly reason?: string };

/** One turn of a delivery, or of several that share a request: checks that it is still wanted, and sends one signed POST. */
@Injectable()
export class Attempts {
  private readonly counts = this.metrics.of(WEBHOOK_METRICS);

  constructor(
    readonly outcomes: Outcomes,
    private readonly subscriptions: SubscriptionCache,
    private readonly posts: SignedPosts,
    private readonly metrics: MetricsRegistry,
    private readonly tracing: Tracing,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
  ) {}

  /**
   * Sends a delivery, and with it those behind it if the subscription takes several events in one request. Reads the subscription for
   * each attempt.
   * @param nowMs Redis' time
   * @returns the first delivery and those that were taken, all with what the one answer means for them
   * @throws StoreUnavailable if the subscription cannot be read, AttemptPostponed. In both cases, nothing was sent.
   */
  async attempt(
    first: Delivery,
    nowMs: number,
    takeWhile: TakeWhile,
  ): Promise<readonly [Attempted, ...Attempted[]]> {
    const unwanted = this.whyUnwanted(first, nowMs);
    if (unwanted !== undefined || first.event === undefined) {
      return [{ delivery: first, verdict: givenUp(unwanted ?? 'event_not_found') }];
    }
    const target = await this.subscriptions.find(first.subscriptionId);
    if (target?.status !== 'ACTIVE') {
      const reason = target === undefined ? 'subscription_not_found' : 'subscription_inactive';
      return [{ delivery: first, verdict: givenUp(reason) }];
    }
    const { event: firstEvent } = first;
    const isGrouped = target.eventsPerRequest > 1;
    const group = new EventGroup([firstEvent], target.eventsPerRequest);
    const others = isGrouped
      ? takeWhile(
          (next) =>
            next.event !== undefined && this.whyUnwanted(next, nowMs) === undefined && group.add(next.event),
        )
      : [];
    const event = isGrouped ? group.outgoing : firstEvent;
    if (isGrouped) {
      this.counts.grouped.inc(1 + others.length);
    }
    [first, ...others].forEach((delivery) => this.begun(delivery, nowMs));
    const span = this.tracing.isOn ? this.startSpan(first, event, target) : undefined;
    return this.tracing.during(span, async () => {
      const answer = await this.send(event, target, span?.spanId);
      // Those that failed as often get one pause, so that they come due together.
      const verdicts = new Map<number, Verdict>();
      const judge = (delivery: Delivery): Attempted => {
        const attempts = delivery.attempts + 1;
        const verdict = verdicts.get(attempts) ?? { ...verdictOf(answer, target, attempts), span };
        verdicts.set(attempts, verdict);
        return { delivery, verdict };
      };
      const judged = judge(first);
      describe(span, judged.verdict);
      return [judged, ...others.map(judge)] as const;
    });
  }

  /** Why a delivery is given up without an attempt, whatever its subscription. */
  private whyUnwanted(delivery: Delivery, nowMs: number): keyof typeof GIVEN_UP | undefined {
    if (delivery.event === undefined || hasEnded(delivery)) {
      return 'event_not_found';
    }
    return nowMs - delivery.createdMs > this.config.webhookStaleAfterMs ? 'stale' : undefined;
  }

  private begun(delivery: Delivery, nowMs: number): void {
    const { ref, attempts, createdMs } = delivery;
    // A replay's delay counts from its request, that of other deliveries from the event.
    const { entryId, replayId } = partsOfRef(ref);
    const bornMs = replayId === undefined ? Number.parseInt(entryId, 10) : createdMs;
    this.counts.attempts.inc(labelsOf(delivery));
    if (attempts === 0) {
      this.counts.untilFirst.observe(Math.max(0, nowMs - bornMs) / 1000);
    }
  }

  /** @throws AttemptPostponed */
  private async send(
    { signed, body }: OutgoingEvent,
    target: DispatchTarget,
    spanId: string | undefined,
  ): Promise<Answer> {
    const timeoutMs = this.config.webhookTimeoutMs;
    const answer = await this.posts.post(target, { signed, body, spanId, timeoutMs });
    if (answer === undefined) {
      const error =
        'the signing secret or the headers of the subscription cannot be decrypted; nothing was sent';
      return { ok: false, durationMs: 0, reason: 'signing_key_unavailable', error };
    }
    if (answer.reason === 'lookups_busy') {
      this.counts.postponed.inc();
      throw new AttemptPostponed(answer.error);
    }
    return answer;
  }

  /** In the trace of the event, as a child of the request or the sweep that caused it. The URL may contain secrets; its host does not. */
  private startSpan(delivery: Delivery, { signed }: OutgoingEvent, target: DispatchTarget): Span | undefined {
    const { traceId, traceFlags } = traceOfDelivery(signed);
    const { eventType, requestId } = signed;
    const ofSweep = eventType === 'reservation.expired' && signed.traceId !== undefined;
    const cause = requestId ?? (ofSweep ? traceId : undefined);
    const parentId = cause === undefined ? undefined : spanIdFrom(cause);
    return this.tracing.start(
      'webhook delivery',
      { traceId, parentId, flags: traceFlags },
      {
        kind: 'client',
        attributes: {
          'http.request.method': 'POST',
          'server.address': URL.canParse(target.url) ? new URL(target.url).hostname : undefined,
          'holdfast.tenant_id': delivery.tenant,
          'holdfast.subscription_id': delivery.subscriptionId,
          'holdfast.delivery_id': deliveryIdOf(delivery),
          'holdfast.event_type': eventType,
          'holdfast.attempt': delivery.attempts + 1,
        },
      },
    );
  }
}

function describe(span: Span | undefined, { outcome, status, reason }: Verdict): void {
  span?.set({ 'http.response.status_code': status, 'holdfast.outcome': outcome });
  if (outcome !== 'SUCCESS') {
    span?.fail(reason ?? 'unknown');
  }
}

function givenUp(reason: keyof typeof GIVEN_UP): Verdict {
  return { outcome: 'FAILED', reason, message: GIVEN_UP[reason] };
}

/** @param attempts made so far, including this one */
function verdictOf(answer: Answer, { retry, endsOnGone }: DispatchTarget, attempts: number): Verdict {
  const { ok, status, durationMs, error = 'the attempt failed', reason = 'transport_error', text } = answer;
  if (ok) {
    return { outcome: 'SUCCESS', durationMs, status };
  }
  const failure = { reason, message: error.slice(0, MESSAGE_MAX_LENGTH), durationMs, status, text };
  const isGone = status === HTTP_GONE && endsOnGone;
  return isGone || attempts > retry.maxRetries
    ? { ...failure, outcome: 'FAILED' }
    : { ...failure, outcome: 'RETRYING', retryInMs: retryDelayMs(retry, attempts, answer.retryAfterMs) };
}

/**
 * How long to wait before the next attempt, in ms: initial * multiplier ^ (retries so far), at most the policy's maximum, and at least what
 * the endpoint asked for. A random addition keeps an endpoint that recovers from getting all its deliveries at once.
 * @param attempts made so far, 1 or more
 * @param askedMs  the endpoint's Retry-After, already bounded
 */
export function retryDelayMs(policy: DispatchTarget['retry'], attempts: number, askedMs = 0): number {
  const delayMs = Math.min(policy.initialDelayMs * policy.multiplier ** (attempts - 1), policy.maxDelayMs);
  const spreadMs = Math.max(delayMs, askedMs) * JITTER_SHARE * Math.random();
  return Math.round(Math.max(delayMs, askedMs) + spreadMs);
}
