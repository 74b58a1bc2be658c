import { Injectable } from '@nestjs/common';
import type { Answer } from '../../answers/index.js';
import type { Caller } from '../../auth/index.js';
import { eventPlaceOf } from '../../events/index.js';
import { randomBase62, Refusal } from '../../ledger/index.js';
import { deliveryKey, Records, RedisService, tagOf } from '../../redis/index.js';
import { MetricsRegistry } from '../../telemetry/index.js';
import { fieldOf, type Fields, timeOf } from '../../wire/index.js';
import { deliveryIdOf, deliveryPlaceOf, type OutgoingEvent, readDeliveries } from '../dispatch/delivery.js';
import { ReplayQueue } from '../replay/replay-queue.js';
import { constantHeaders } from '../signing/signing.js';
import { SubscriptionAccess } from '../subscriptions/subscription-access.js';
import { WEBHOOK_METRICS } from '../webhooks.metrics.js';
import { type Delivery, deliveryOf } from './deliveries.service.js';

/** One attempt and what came of it. */
export type DeliveryAttempt = Answer<'WebhookDeliveryAttempt'>;

export type DeliveryDetails = Answer<'WebhookDeliveryDetails'>;

interface Found {
  readonly delivery: Delivery;
  readonly fields: Fields;
  readonly event: OutgoingEvent | undefined;
}

/** One delivery with its request and attempts, and sending it again. */
@Injectable()
export class DeliveryDetailsService {
  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
    private readonly subscriptions: SubscriptionAccess,
    private readonly queue: ReplayQueue,
    private readonly metrics: MetricsRegistry,
  ) {}

  /** @throws Refusal NOT_FOUND; StoreUnavailable */
  async get(caller: Caller, deliveryId: string): Promise<DeliveryDetails> {
    const { delivery, fields, event } = await this.find(deliveryId);
    const url = await this.urlOf(caller, delivery.subscription_id);
    const text = fields.get('ab') ?? '';
    return {
      ...delivery,
      attempts_made: attemptsOf(fields),
      ...(text === '' ? {} : { answer_text: text }),
      ...(event === undefined
        ? {}
        : {
            request: {
              ...(url === undefined ? {} : { url }),
              headers: constantHeaders(event.signed),
              body: event.body.toString(),
            },
          }),
    };
  }

  /**
   * Queues the event again for the same subscription, as a replay of one event: a new delivery, whatever became of this one.
   * @throws Refusal NOT_FOUND, WEBHOOK_NOT_FOUND, TENANT_CLOSED, EVENT_NOT_FOUND, INVALID_REQUEST if the subscription is not active;
   * StoreUnavailable
   */
  async resend(caller: Caller, deliveryId: string): Promise<{ readonly delivery_id: string }> {
    const { delivery } = await this.find(deliveryId);
    const { subscription_id: subscriptionId, event_id: eventId } = delivery;
    const { status } = await this.subscriptions.find(caller, subscriptionId, { forChange: true });
    if (status !== 'ACTIVE') {
      throw new Refusal('INVALID_REQUEST', 'the subscription is not active; resume it first', { status });
    }
    const replayId = `rpl_${randomBase62(16)}`;
    const place = eventPlaceOf(eventId);
    const { count, last } =
      place === undefined
        ? { count: 0, last: [] }
        : await this.queue.queue(subscriptionId, replayId, [{ event_id: eventId }]);
    const [queued] = last;
    if (queued === undefined) {
      throw new Refusal('EVENT_NOT_FOUND', 'the event of the delivery is not in the log any more');
    }
    const counts = this.metrics.of(WEBHOOK_METRICS);
    counts.replays.inc({ result: 'one_delivery' });
    counts.replayedEvents.inc(count);
    return { delivery_id: deliveryIdOf(queued) };
  }

  private async find(deliveryId: string): Promise<Found> {
    const place = deliveryPlaceOf(deliveryId);
    const fields = place && (await this.records.read(deliveryKey(tagOf(place.partition), place.ref)));
    if (place === undefined || fields === undefined) {
      throw new Refusal('NOT_FOUND', 'there is no such delivery, or its record is not kept any more');
    }
    const [read] = await readDeliveries(this.redis, place.partition, [place.ref]);
    const partition = Number.parseInt(place.partition, 16);
    const createdMs = Number(fieldOf(fields, 'ca'));
    const delivery = deliveryOf({ partition, ref: place.ref, createdMs, fields });
    return { delivery, fields, event: read?.event };
  }

  private async urlOf(caller: Caller, subscriptionId: string): Promise<string | undefined> {
    try {
      return (await this.subscriptions.find(caller, subscriptionId)).url;
    } catch (error) {
      if (error instanceof Refusal) {
        return undefined;
      }
      throw error;
    }
  }
}

/** Oldest first. lua/webhooks/lib/delivery_record.lua describes how they are kept. */
function attemptsOf(fields: Fields): DeliveryAttempt[] {
  const lines = fields.get('al')?.split('\n') ?? [];
  if (lines.length === 0 && fields.get('at') === '1') {
    lines.push(['fa', 'rt', 'rs', 'em'].map((name) => fields.get(name) ?? '').join(' '));
  }
  return lines.map((line) => {
    const [at = '', tookMs = '', status = '', ...words] = line.split(' ');
    const error = words.join(' ');
    return {
      attempted_at: timeOf(at),
      response_time_ms: Number(tookMs),
      ...(status === '' ? {} : { response_status: Number(status) }),
      ...(error === '' ? {} : { error_message: error }),
    };
  });
}
