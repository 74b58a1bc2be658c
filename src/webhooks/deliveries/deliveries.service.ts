import { Injectable } from '@nestjs/common';
import { IsIn } from 'class-validator';
import type { Caller } from '../../auth/index.js';
import { fingerprintOf } from '../../ledger/index.js';
import { partitionOfTenant, RedisService, SYSTEM_OWNER } from '../../redis/index.js';
import {
  decodeCursor,
  DEFAULT_LIMIT,
  encodeCursor,
  instantMs,
  MAX_LIMIT,
  Optional,
  type Page,
  WindowQueryDto,
} from '../../wire/index.js';
import { SubscriptionAccess } from '../subscriptions/subscription-access.js';
import {
  type Delivery,
  DELIVERY_STATUSES,
  DeliveryFeed,
  deliveryOf,
  type DeliveryPlace,
  type DeliveryStatus,
} from './delivery-feed.js';

/** The query of listWebhookDeliveries. The window applies to the time at which deliveries were queued. */
export class DeliveryListQueryDto extends WindowQueryDto {
  @Optional()
  @IsIn(DELIVERY_STATUSES)
  status?: DeliveryStatus;
}

const PLACE_ID = /^(\d{1,3}) (\d{1,14}-\d{1,20}:[0-9A-Za-z_:]{1,64})$/;

/** Lists a subscription's deliveries for as long as their records are kept. */
@Injectable()
export class DeliveriesService {
  constructor(
    private readonly redis: RedisService,
    private readonly subscriptions: SubscriptionAccess,
    private readonly feed: DeliveryFeed,
  ) {}

  /** Newest first. @throws Refusal WEBHOOK_NOT_FOUND (also for another tenant's), INSUFFICIENT_PERMISSIONS, INVALID_REQUEST; StoreUnavailable */
  async list(caller: Caller, subscriptionId: string, query: DeliveryListQueryDto): Promise<Page<Delivery>> {
    const { owner } = await this.subscriptions.find(caller, subscriptionId);
    const { status, cursor, limit = DEFAULT_LIMIT } = query;
    const search = { subscriptionId, status, fromMs: instantMs(query.from), toMs: instantMs(query.to) };
    const fingerprint = fingerprintOf({ list: 'webhook-deliveries', ...search });
    const { rows, next } = await this.feed.page(
      search,
      this.partitionsOf(owner),
      Math.min(limit, MAX_LIMIT),
      placeOf(cursor, fingerprint),
    );
    const deliveries = rows.map(deliveryOf);
    return next === undefined
      ? { rows: deliveries, has_more: false }
      : { rows: deliveries, has_more: true, next_cursor: cursorOf(fingerprint, next) };
  }

  private partitionsOf(owner: string): number[] {
    const { partitions } = this.redis;
    return owner === SYSTEM_OWNER
      ? Array.from({ length: partitions }, (_, partition) => partition)
      : [partitionOfTenant(owner, partitions)];
  }
}

function cursorOf(fingerprint: string, { createdMs, partition, ref }: DeliveryPlace): string {
  return encodeCursor(fingerprint, { value: createdMs, id: `${partition} ${ref}` });
}

function placeOf(cursor = '', fingerprint: string): DeliveryPlace | undefined {
  if (cursor === '') {
    return undefined;
  }
  const { value, id } = decodeCursor(
    fingerprint,
    cursor,
    (position) => Number.isSafeInteger(position.value) && PLACE_ID.test(position.id),
  );
  const [, partition, ref] = PLACE_ID.exec(id) as unknown as [string, string, string];
  return { createdMs: value as number, partition: Number(partition), ref };
}
