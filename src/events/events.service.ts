import { Injectable } from '@nestjs/common';
import { IsIn, IsString } from 'class-validator';
import { mayActFor, scopeAllowed, type TenantCaller, type Tenants } from '../auth/index.js';
import {
  categoryOf,
  EVENT_CATEGORIES,
  EVENT_TYPES,
  type EventCategory,
  fingerprintOf,
  invalidField,
  isEventType,
  Refusal,
  scopePrefixOf,
  TENANT_EVENT_CATEGORIES,
  treeOrder,
} from '../ledger/index.js';
import { eventLogKey, RedisService, tagOf, toStoreError } from '../redis/index.js';
import {
  fieldsOf,
  instantMs,
  Matches,
  MaxLength,
  Obeys,
  Optional,
  type Page,
  pageInTime,
  pageSorted,
  RecordSelection,
  type Rule,
  type SortOrder,
  sortOrderOf,
  type TimeLog,
  WindowQueryDto,
} from '../wire/index.js';
import { EventFeed, type EventSearch } from './event-feed.js';
import { type CyclesEvent, type EventPlace, eventPlaceOf, toEvent } from './event.js';

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
  @Optional(Obeys(EVENT_TYPE))
  event_type?: string;

  @Optional(IsIn(EVENT_CATEGORIES))
  category?: EventCategory;

  /** Events at this scope and below it. */
  @Optional(MaxLength(1024))
  scope?: string;

  @Optional(MaxLength(512))
  correlation_id?: string;
}

/** The query of listEvents. */
export class EventQueryDto extends TenantEventQueryDto {
  @Optional(IsString())
  tenant_id?: string;

  @Optional(Matches(/^[0-9a-f]{32}$/))
  trace_id?: string;

  @Optional(IsString())
  request_id?: string;

  @Optional(MaxLength(128))
  search?: string;

  @Optional(IsIn(EVENT_SORT_KEYS))
  sort_by?: EventSortKey;

  @Optional(IsIn(['asc', 'desc']))
  sort_dir?: 'asc' | 'desc';
}

/** A cursor goes on with a list of the same tenants only. */
type ListQuery = EventQueryDto & { readonly tenants?: Tenants };

const NEWEST_FIRST: SortOrder<EventSortKey> = { sortBy: 'timestamp', direction: 'desc' };

/** Reads the event log for operators and tenants. */
@Injectable()
export class EventsService {
  constructor(
    private readonly redis: RedisService,
    private readonly feed: EventFeed,
  ) {}

  /**
   * Newest first by default.
   * @param tenants that the operator is confined to
   * @throws Refusal INVALID_REQUEST
   */
  async list(asked: EventQueryDto, tenants: Tenants): Promise<Page<CyclesEvent>> {
    const query = { ...asked, tenants };
    const order = sortOrderOf(query, EVENT_SORT_KEYS, NEWEST_FIRST);
    const matches = ({ tenant_id: tenantId }: CyclesEvent): boolean => mayActFor(tenants, tenantId);
    return order.sortBy === 'timestamp'
      ? this.listByTime(query, order, matches)
      : this.listSorted(query, order, matches);
  }

  /** The tenant's own events, in the categories that tenants may read. @throws Refusal INVALID_REQUEST */
  async listOfTenant(
    { tenantId, scopeFilter }: TenantCaller,
    query: TenantEventQueryDto,
  ): Promise<Page<CyclesEvent>> {
    requireTenantCategory('category', query.category);
    requireTenantCategory(
      'event_type',
      query.event_type === undefined ? undefined : categoryOf(query.event_type),
    );
    const own = { ...query, tenant_id: tenantId };
    return this.listByTime(
      own,
      NEWEST_FIRST,
      ({ scope }) => scopeAllowed(scopeFilter, scope ?? `tenant:${tenantId}`),
      TENANT_EVENT_CATEGORIES,
    );
  }

  /** @throws Refusal EVENT_NOT_FOUND */
  async get(eventId: string): Promise<CyclesEvent> {
    const place = this.placeOf(eventId);
    const event = place === undefined ? undefined : await this.read(place);
    if (event === undefined) {
      throw new Refusal('EVENT_NOT_FOUND', 'there is no such event, or its retention has ended', {
        event_id: eventId,
      });
    }
    return event;
  }

  private async read({ partition, entryId }: EventPlace): Promise<CyclesEvent | undefined> {
    try {
      const [entry] = await this.redis.client.xrange(eventLogKey(tagOf(partition)), entryId, entryId);
      return entry === undefined ? undefined : toEvent(partition, entryId, fieldsOf(entry[1]));
    } catch (error) {
      throw toStoreError(error);
    }
  }

  private placeOf(eventId: string): EventPlace | undefined {
    const place = eventPlaceOf(eventId);
    return place !== undefined && Number.parseInt(place.partition, 16) < this.redis.partitions
      ? place
      : undefined;
  }

  private listByTime(
    { cursor, limit, ...query }: ListQuery,
    order: SortOrder<EventSortKey>,
    matches: (event: CyclesEvent) => boolean,
    categories: readonly string[] = [],
  ): Promise<Page<CyclesEvent>> {
    const { sortBy, direction } = order;
    const fingerprint = fingerprintOf({ list: 'events', ...query, sort_by: sortBy, sort_dir: direction });
    const log = this.logOf(searchOf(query, direction, matches, categories));
    return pageInTime(log, { cursor, limit, order, fingerprint });
  }

  private listSorted(
    { cursor, limit, ...query }: ListQuery,
    order: SortOrder<EventSortKey>,
    matches: (event: CyclesEvent) => boolean,
  ): Promise<Page<CyclesEvent>> {
    const selection = new RecordSelection<CyclesEvent>({
      query: { list: 'events', ...query },
      order,
      cursor,
      limit,
      valueOf: (event) =>
        order.sortBy === 'scope' ? treeOrder(event.scope ?? '') : (event[order.sortBy] ?? ''),
      idOf: ({ event_id: id }) => id,
    });
    return pageSorted(this.logOf(searchOf(query, 'asc', matches, [])), selection, 'events');
  }

  private logOf(search: EventSearch): TimeLog<CyclesEvent, string> {
    return {
      placeOf: (id) => (this.placeOf(id) === undefined ? undefined : id),
      idOf: (id) => id,
      read: async (limit, after, maxExamined) => {
        const page = { limit, after: after === undefined ? undefined : this.placeOf(after) };
        const { events: rows, ...rest } = await this.feed.page(search, page, maxExamined);
        return { rows, ...rest };
      },
    };
  }
}

function searchOf(
  query: EventQueryDto,
  direction: 'asc' | 'desc',
  matches: (event: CyclesEvent) => boolean,
  categories: readonly string[],
): EventSearch {
  const { tenant_id: tenantId = '', correlation_id: correlationId = '', category } = query;
  const conditions: Record<string, string | undefined> = {
    ty: query.event_type,
    category: category ?? categories.join(','),
    tn: tenantId,
    co: correlationId,
    sc: scopePrefixOf(query.scope),
    rq: query.request_id,
    tr: query.trace_id,
    search: query.search?.toLowerCase(),
  };
  return {
    direction,
    fromMs: instantMs(query.from),
    toMs: instantMs(query.to),
    tenantId: tenantId === '' ? undefined : tenantId,
    correlationId: correlationId === '' ? undefined : correlationId,
    conditions: Object.entries(conditions).flatMap(([name, value]) =>
      value === undefined || value === '' ? [] : [name, value],
    ),
    matches,
  };
}

/** @throws Refusal INVALID_REQUEST */
function requireTenantCategory(field: string, category: string | undefined): void {
  if (category !== undefined && !(TENANT_EVENT_CATEGORIES as readonly string[]).includes(category)) {
    throw invalidField(
      field,
      `${field} must be in one of the categories ${TENANT_EVENT_CATEGORIES.join(', ')}; the others are for operators`,
    );
  }
}
