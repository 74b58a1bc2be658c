import { randomInt } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import type { Answer } from '../../answers/index.js';
import type { Caller } from '../../auth/index.js';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { type CyclesEvent, eventJson, toEvent } from '../../events/index.js';
import { TooBusy } from '../../ledger/index.js';
import { codeOfTenant, RedisService } from '../../redis/index.js';
import { MetricsRegistry } from '../../telemetry/index.js';
import type { Origin, RequestTrace } from '../../wire/index.js';
import { EventGroup } from '../dispatch/event-group.js';
import { SubscriptionAccess } from '../subscriptions/subscription-access.js';
import type { AttemptOutcome } from '../transport/attempt.js';
import { type Endpoint, SignedPosts } from '../transport/signed-posts.js';
import { WEBHOOK_METRICS } from '../webhooks.metrics.js';

/** The caller waits for the result, so a probe has at most this long, even if deliveries have longer. */
const LONGEST_MS = 10_000;
const RETRY_AFTER_S = 2;

/** WebhookTestResponse of cycles-governance-admin-v0.1.25. The event id is present if something was sent. */
export type ProbeResult = Answer<'WebhookTestResponse'>;

export interface ProbeTarget extends Endpoint {
  readonly eventsPerRequest: number;
}

/** Sends one event to an endpoint immediately, signed like every delivery. Stores nothing; only counts it. */
@Injectable()
export class Prober {
  private readonly counts = this.metrics.of(WEBHOOK_METRICS);
  private readonly timeoutMs: number = Math.min(this.config.webhookTimeoutMs, LONGEST_MS);

  constructor(
    private readonly posts: SignedPosts,
    private readonly metrics: MetricsRegistry,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
  ) {}

  /** @throws TooBusy if too many host names are being looked up for the owner; nothing was sent. */
  async send(target: ProbeTarget, event: CyclesEvent, traceFlags: string): Promise<ProbeResult> {
    const { event_id: eventId, event_type: eventType, trace_id: traceId, request_id: requestId } = event;
    const single = {
      signed: { eventId, eventType, traceId, traceFlags, requestId },
      trace: '',
      body: Buffer.from(eventJson(event)),
    };
    const isGrouped = target.eventsPerRequest > 1;
    const { signed, body } = isGrouped ? new EventGroup([single], 1).outgoing : single;
    const outcome = await this.posts.post(target, { signed, body, timeoutMs: this.timeoutMs });
    if (outcome === undefined) {
      this.counts.probes.inc({ result: 'signing_key_unavailable' });
      return {
        success: false,
        error_message:
          "signing_key_unavailable: the subscription's secret cannot be decrypted; nothing was sent",
      };
    }
    this.counts.probes.inc({ result: outcome.ok ? 'success' : (outcome.reason ?? 'transport_error') });
    if (outcome.reason === 'lookups_busy') {
      throw new TooBusy(outcome.error ?? '', RETRY_AFTER_S);
    }
    return resultOf(outcome, eventId);
  }
}

function resultOf({ ok, status, durationMs, error, reason }: AttemptOutcome, eventId: string): ProbeResult {
  if (reason === 'target_blocked') {
    return {
      success: false,
      error_message: `rejected by current security policy: ${error}; nothing was sent`,
    };
  }
  return {
    success: ok,
    ...(status === undefined ? {} : { response_status: status }),
    response_time_ms: durationMs,
    ...(error === undefined ? {} : { error_message: error }),
    event_id: eventId,
  };
}

/** No event log reaches these sequence numbers within one millisecond, so a probe never shares an id with an event. */
const FIRST_SEQUENCE = 0xf000_0000;
const LAST_SEQUENCE = 0xffff_ffff;

/** The event that a probe sends. It has the form of every event, but is not in any log. */
export function probeEvent(
  owner: string,
  subscriptionId: string,
  { actor, keyId, requestId, trace }: Origin,
  { partitions, clock }: Pick<RedisService, 'partitions' | 'clock'>,
): CyclesEvent {
  const fields = new Map([
    ['ty', 'system.webhook_test'],
    ['tn', owner],
    ['ac', actor],
    ['rq', requestId],
    ['tr', trace.split(' ', 1)[0] as string],
    ['component', 'webhook_dispatcher'],
    ['message', `A test of the subscription ${subscriptionId}; nothing happened.`],
    ['severity', 'info'],
  ]);
  if (keyId !== '') {
    fields.set('ki', keyId);
  }
  const entryId = `${clock.nowMs()}-${randomInt(FIRST_SEQUENCE, LAST_SEQUENCE)}`;
  return toEvent(codeOfTenant(owner, partitions), entryId, fields);
}

/** POST .../test: sends a test event to a subscription's endpoint, whatever the subscription's status. */
@Injectable()
export class ProbeService {
  constructor(
    private readonly redis: RedisService,
    private readonly subscriptions: SubscriptionAccess,
    private readonly prober: Prober,
  ) {}

  /** @throws Refusal WEBHOOK_NOT_FOUND (also for another tenant's), INSUFFICIENT_PERMISSIONS, TENANT_CLOSED; StoreUnavailable */
  async test(
    caller: Caller,
    subscriptionId: string,
    origin: Origin,
    { traceFlags }: RequestTrace,
  ): Promise<ProbeResult> {
    const target = await this.subscriptions.find(caller, subscriptionId, { forChange: true });
    return this.prober.send(target, probeEvent(target.owner, subscriptionId, origin, this.redis), traceFlags);
  }
}
