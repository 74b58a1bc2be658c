import { IsIn, IsString, Matches } from 'class-validator';
import { MaxLength, Obeys, Optional, type Rule, WindowQueryDto } from '../wire/index.js';
import { EVENT_CATEGORIES, EVENT_TYPES, type EventCategory, isEventType } from './event.js';

export const EVENT_SORT_KEYS = ['event_type', 'category', 'scope', 'tenant_id', 'timestamp'] as const;
export type EventSortKey = (typeof EVENT_SORT_KEYS)[number];

const EVENT_TYPE: Rule = {
  name: 'eventType',
  test: (value) => typeof value === 'string' && isEventType(value),
  schema: { type: 'string', enum: EVENT_TYPES },
  phrase: "an event type of the protocol, or a custom one that starts with 'custom.'",
};

/** The query of listTenantEvents of cycles-governance-admin-v0.1.25. */
export class TenantEventQueryDto extends WindowQueryDto {
  @Optional()
  @Obeys(EVENT_TYPE)
  event_type?: string;

  @Optional()
  @IsIn(EVENT_CATEGORIES)
  category?: EventCategory;

  /** A prefix of the scope. */
  @Optional()
  @IsString()
  @MaxLength(1024)
  scope?: string;

  @Optional()
  @IsString()
  @MaxLength(512)
  correlation_id?: string;
}

/** The query of listEvents. */
export class EventQueryDto extends TenantEventQueryDto {
  @Optional()
  @IsString()
  tenant_id?: string;

  @Optional()
  @IsString()
  @Matches(/^[0-9a-f]{32}$/)
  trace_id?: string;

  @Optional()
  @IsString()
  request_id?: string;

  @Optional()
  @IsString()
  @MaxLength(128)
  search?: string;

  @Optional()
  @IsIn(EVENT_SORT_KEYS)
  sort_by?: EventSortKey;

  @Optional()
  @IsIn(['asc', 'desc'])
  sort_dir?: 'asc' | 'desc';
}
