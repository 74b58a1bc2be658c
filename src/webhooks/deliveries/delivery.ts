import { eventIdOf, traceOf } from '../../event-log/index.js';
import { fieldOf, timeOf, type Fields } from '../../governance/listing/index.js';
import { partitionCode } from '../../redis/index.js';
import { deliveryIdOf, partsOfRef } from '../dispatch/index.js';

export const DELIVERY_STATUSES = ['PENDING', 'SUCCESS', 'FAILED', 'RETRYING'] as const;
export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number];

/** A delivery's place in its subscription's list: newest first, of one instant by partition, then the latest event first. */
export interface DeliveryPlace {
  /** When it was queued. */
  readonly createdMs: number;
  readonly partition: number;
  readonly ref: string;
}

export interface StoredDelivery extends DeliveryPlace {
  /** As lua/lib/delivery.lua names them. */
  readonly fields: Fields;
}

/** WebhookDelivery of cycles-governance-admin-v0.1.25. */
export interface Delivery {
  readonly delivery_id: string;
  readonly subscription_id: string;
  readonly event_id: string;
  readonly event_type: string;
  readonly status: DeliveryStatus;
  /** Of the first attempt; before there is one, when it was queued. */
  readonly attempted_at: string;
  readonly completed_at?: string;
  readonly attempts: number;
  readonly response_status?: number;
  readonly response_time_ms?: number;
  readonly error_message?: string;
  readonly next_retry_at?: string;
  readonly trace_id?: string;
  readonly trace_flags?: string;
}

/** @throws Error when a record is none that Holdfast wrote. */
export function deliveryOf({ partition, ref, fields }: StoredDelivery): Delivery {
  const code = partitionCode(partition);
  const { entryId, subscriptionId } = partsOfRef(ref);
  const trace = traceOf(fields);
  // A field without a value is one that the last attempt took away.
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
