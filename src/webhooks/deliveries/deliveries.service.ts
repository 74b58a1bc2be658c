import { Injectable } from '@nestjs/common';
import { IsIn } from 'class-validator';
import type { Answer } from '../../answers/index.js';
import { type Caller, partitionsOfTenants } from '../../auth/index.js';
import { eventIdOf, traceOf } from '../../events/index.js';
import { fingerprintOf } from '../../ledger/index.js';
import {
  deliveryIndexKey,
  partitionCode,
  RedisService,
  SkippedRecords,
  SYSTEM_OWNER,
  tagOfPartition,
} from '../../redis/index.js';
import { MetricsRegistry } from '../../telemetry/index.js';
import {
  type Batch,
  DEFAULT_LIMIT,
  EXAMINED_A_PAGE,
  fieldOf,
  type Fields,
  instantMs,
  MAX_LIMIT,
  mergedPage,
  Optional,
  type Page,
  pageEnd,
  placeAfter,
  type Position,
  timeOf,
  WindowQueryDto,
} from '../../wire/index.js';
import { deliveryIdOf, partsOfRef } from '../dispatch/delivery.js';
import { SubscriptionAccess } from '../subscriptions/subscription-access.js';
import { WEBHOOK_METRICS } from '../webhooks.metrics.js';

/** Records that one script examines: about a millisecond of Redis' time. */
const EXAMINED_A_RUN = 250;

/** The search that all partitions have in common. */
export interface DeliverySearch {
  readonly subscriptionId: string;
  readonly status: DeliveryStatus | undefined;
  /** Inclusive bounds of the time at which they were queued, in ms. */
  readonly fromMs: number | undefined;
  readonly toMs: number | undefined;
}

/** Whether a place precedes one of another partition. lua/webhooks/list_deliveries.lua defines the order within a partition. */
export function isBefore(one: DeliveryPlace, other: DeliveryPlace): boolean {
  return (
    one.createdMs > other.createdMs || (one.createdMs === other.createdMs && one.partition < other.partition)
  );
}

/** The deliveries of a subscription in one partition, read in batches. */
export class PartitionDeliveries {
  private behind: DeliveryPlace | undefined;
  private readonly toMs: number | undefined;

  /** @param after where the previous page ended, in any partition */
  constructor(
    private readonly redis: RedisService,
    private readonly partition: number,
    private readonly search: DeliverySearch,
    private readonly rowsARun: number,
    after: DeliveryPlace | undefined,
  ) {
    this.toMs = search.toMs;
    if (after?.partition === partition) {
      this.behind = after;
    } else if (after !== undefined) {
      // Of those queued in the same millisecond as the last one of the previous page, higher partitions are still to come.
      this.toMs = Math.min(after.createdMs - (partition < after.partition ? 1 : 0), search.toMs ?? Infinity);
    }
  }

  /** Reads the next batch. @throws StoreUnavailable */
  async readNext(): Promise<Batch<StoredDelivery, DeliveryPlace>> {
    const { subscriptionId, status = '', fromMs = '-inf' } = this.search;
    const { partition } = this;
    const { nextMs, nextRef, examined, deliveries } = await this.redis.queries.call(
      'list_deliveries',
      { deliveryIndex: deliveryIndexKey(tagOfPartition(partition), subscriptionId) },
      {
        fromMs,
        toMs: this.toMs ?? '+inf',
        afterMs: this.behind?.createdMs ?? '',
        afterRef: this.behind?.ref ?? '',
        status,
        examine: EXAMINED_A_RUN,
        limit: this.rowsARun,
      },
    );
    const rows = deliveries.map(({ ref, createdMs, record: fields }) => ({
      createdMs,
      partition,
      ref,
      fields,
    }));
    const reached =
      nextMs === undefined || nextRef === undefined
        ? undefined
        : { createdMs: nextMs, partition, ref: nextRef };
    this.behind = reached;
    return { rows, reached, examined };
  }
}

/** Rows that each partition fetches at a time while many are merged. */
const ROWS_A_RUN_MERGED = 8;

export interface DeliveryPage {
  readonly rows: readonly StoredDelivery[];
  /** The next page starts after this place; undefined at the end. There may be no matching delivery at it. */
  readonly next: DeliveryPlace | undefined;
}

/**
 * A subscription's deliveries, newest first. A delivery is in the partition of its event. So those of a tenant's subscription are in one
 * partition, and those of an operator's subscription are merged from all partitions. A page whose filters match few ends early.
 */
@Injectable()
export class DeliveryFeed {
  private readonly counts = this.metrics.of(WEBHOOK_METRICS);

  constructor(
    private readonly redis: RedisService,
    private readonly metrics: MetricsRegistry,
  ) {}

  /** @param partitions the partitions of the subscription's events @throws StoreUnavailable */
  async page(
    search: DeliverySearch,
    partitions: readonly number[],
    limit: number,
    after: DeliveryPlace | undefined,
    maxExamined = EXAMINED_A_PAGE,
  ): Promise<DeliveryPage> {
    const rowsARun = partitions.length === 1 ? limit + 1 : Math.min(limit + 1, ROWS_A_RUN_MERGED);
    const deliveries = partitions.map(
      (partition) => new PartitionDeliveries(this.redis, partition, search, rowsARun, after),
    );
    const page = await mergedPage<StoredDelivery, DeliveryPlace>(
      deliveries.map((partition) => () => partition.readNext()),
      { placeOf: (row) => row, isBefore, limit, maxExamined },
    );
    if (page.endedEarly) {
      this.counts.deliveryPagesCut.inc();
    }
    return page;
  }
}

export const DELIVERY_STATUSES = ['PENDING', 'SUCCESS', 'FAILED', 'RETRYING'] as const;
export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number];

/** A delivery's place in its subscription's list: newest first, then by partition, then the latest event first. */
export interface DeliveryPlace {
  /** When it was queued. */
  readonly createdMs: number;
  readonly partition: number;
  readonly ref: string;
}

export interface StoredDelivery extends DeliveryPlace {
  /** Named by lua/webhooks/lib/delivery_record.lua. */
  readonly fields: Fields;
}

/** WebhookDelivery of cycles-governance-admin-v0.1.25. */
export type Delivery = Answer<'WebhookDelivery'>;

/** @throws Error if the record is corrupt. */
export function deliveryOf({ partition, ref, fields }: StoredDelivery): Delivery {
  const code = partitionCode(partition);
  const { entryId, subscriptionId } = partsOfRef(ref);
  const trace = traceOf(fields);
  // An empty field was removed by the last attempt.
  const given = <Name extends string, T>(
    name: Name,
    field: string,
    read: (text: string) => T,
  ): Partial<Record<Name, T>> => {
    const text = fields.get(field) ?? '';
    return text === '' ? {} : ({ [name]: read(text) } as Partial<Record<Name, T>>);
  };
  return {
    delivery_id: deliveryIdOf({ partition: code, ref }),
    subscription_id: subscriptionId,
    event_id: eventIdOf({ partition: code, entryId }),
    event_type: fieldOf(fields, 'ty'),
    status: fieldOf(fields, 'st') as DeliveryStatus,
    attempted_at: timeOf(fields.get('fa') ?? fieldOf(fields, 'ca')),
    ...given('completed_at', 'co', timeOf),
    attempts: Number(fieldOf(fields, 'at')),
    ...given('response_status', 'rs', Number),
    ...given('response_time_ms', 'rt', Number),
    ...given('error_message', 'em', String),
    ...given('next_retry_at', 'nr', timeOf),
    ...(trace === undefined ? {} : { trace_id: trace.traceId, trace_flags: trace.flags }),
  };
}

/** The query of listWebhookDeliveries. The window applies to the time at which deliveries were queued. */
export class DeliveryListQueryDto extends WindowQueryDto {
  @Optional(IsIn(DELIVERY_STATUSES))
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
    private readonly skipped: SkippedRecords,
  ) {}

  /** Newest first. @throws Refusal WEBHOOK_NOT_FOUND (also for another tenant's), INSUFFICIENT_PERMISSIONS, INVALID_REQUEST; StoreUnavailable */
  async list(caller: Caller, subscriptionId: string, query: DeliveryListQueryDto): Promise<Page<Delivery>> {
    const { owner } = await this.subscriptions.find(caller, subscriptionId);
    const { status, cursor, limit = DEFAULT_LIMIT } = query;
    const search = { subscriptionId, status, fromMs: instantMs(query.from), toMs: instantMs(query.to) };
    const fingerprint = fingerprintOf({ list: 'webhook-deliveries', ...search });
    const { rows, next } = await this.feed.page(
      search,
      partitionsOfTenants(owner === SYSTEM_OWNER ? undefined : [owner], this.redis.partitions),
      Math.min(limit, MAX_LIMIT),
      placeOf(cursor, fingerprint),
    );
    const deliveries = rows.flatMap((row) => {
      const id = deliveryIdOf({ partition: partitionCode(row.partition), ref: row.ref });
      return this.skipped.whole('delivery', id, () => deliveryOf(row)) ?? [];
    });
    return { rows: deliveries, ...pageEnd(fingerprint, next && positionOf(next)) };
  }
}

function positionOf({ createdMs, partition, ref }: DeliveryPlace): Position {
  return { value: createdMs, id: `${partition} ${ref}` };
}

function placeOf(cursor: string | undefined, fingerprint: string): DeliveryPlace | undefined {
  const after = placeAfter(
    fingerprint,
    cursor,
    ({ value, id }) => Number.isSafeInteger(value) && PLACE_ID.test(id),
  );
  const [, partition, ref = ''] = PLACE_ID.exec(after?.id ?? '') ?? [];
  return after && { createdMs: after.value as number, partition: Number(partition), ref };
}
