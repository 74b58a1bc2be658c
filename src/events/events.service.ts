import { Injectable } from '@nestjs/common';
import { scopeAllowed, type TenantCaller } from '../auth/index.js';
import { fingerprintOf, Refusal } from '../ledger/index.js';
import { eventLogKey, RedisService, tagOf, toStoreError } from '../redis/index.js';
import {
  decodeCursor,
  DEFAULT_LIMIT,
  encodeCursor,
  fieldsOf,
  instantMs,
  MAX_LIMIT,
  type Page,
  RecordSelection,
  type SortOrder,
  sortOrderOf,
} from '../wire/index.js';
import {
  EVENT_SORT_KEYS,
  type EventQueryDto,
  type EventSortKey,
  type TenantEventQueryDto,
} from './event-query.dto.js';
import { EventFeed, type EventQuestion } from './event-source.js';
import {
  categoryOf,
  type CyclesEvent,
  type EventPlace,
  eventPlaceOf,
  TENANT_EVENT_CATEGORIES,
  toEvent,
} from './event.js';

/** Entries that an order other than that of time may have to look at: about a quarter of a second of Redis' time, in slices. */
const SORTED_MOST = 50_000;
/** How many of them are fetched at once. */
const SORTED_A_PAGE = 2000;
const NEWEST_FIRST: SortOrder<EventSortKey> = { sortBy: 'timestamp', direction: 'desc' };

/** Reads the event log for operators and tenants. */
@Injectable()
export class EventsService {
  constructor(
    private readonly redis: RedisService,
    private readonly feed: EventFeed,
  ) {}

  /** Newest first, unless asked otherwise. @throws Refusal INVALID_REQUEST */
  async list(query: EventQueryDto): Promise<Page<CyclesEvent>> {
    const order = sortOrderOf(query, EVENT_SORT_KEYS, NEWEST_FIRST);
    return order.sortBy === 'timestamp'
      ? this.pageInTime(query, order, () => true)
      : this.pageSorted(query, order);
  }

  /** The tenant's own events of the categories that are its business. @throws Refusal INVALID_REQUEST */
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
    return this.pageInTime(
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
      throw new Refusal('EVENT_NOT_FOUND', 'there is no such event, or it has gone after the retention', {
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

  private async pageInTime(
    { cursor = '', limit = DEFAULT_LIMIT, ...query }: EventQueryDto,
    order: SortOrder<EventSortKey>,
    matches: (event: CyclesEvent) => boolean,
    categories: readonly string[] = [],
  ): Promise<Page<CyclesEvent>> {
    const fingerprint = fingerprintOf({
      list: 'events',
      ...query,
      sort_by: order.sortBy,
      sort_dir: order.direction,
    });
    const position =
      cursor === ''
        ? undefined
        : decodeCursor(fingerprint, cursor, ({ id }) => this.placeOf(id) !== undefined);
    const after = position === undefined ? undefined : this.placeOf(position.id);
    const question = questionOf(query, order.direction, matches, categories);
    const { events, next } = await this.feed.page(question, { limit: Math.min(limit, MAX_LIMIT), after });
    return next === undefined
      ? { rows: events, has_more: false }
      : {
          rows: events,
          has_more: true,
          next_cursor: encodeCursor(fingerprint, { value: next, id: next }, order),
        };
  }

  private async pageSorted(
    { cursor, limit, ...query }: EventQueryDto,
    order: SortOrder<EventSortKey>,
  ): Promise<Page<CyclesEvent>> {
    const selection = new RecordSelection<CyclesEvent>({
      query: { list: 'events', ...query },
      order,
      cursor,
      limit,
      valueOf: (event) => event[order.sortBy] ?? '',
      idOf: ({ event_id: id }) => id,
    });
    const question = questionOf(query, 'asc', () => true, []);
    let after: EventPlace | undefined;
    let left = SORTED_MOST;
    do {
      const { events, next, endedEarly, examined } = await this.feed.page(
        question,
        { limit: SORTED_A_PAGE, after },
        left,
      );
      left -= examined;
      if (endedEarly || left <= 0) {
        throw new Refusal(
          'INVALID_REQUEST',
          `more than ${SORTED_MOST} events lie in the window; narrow from and to, or sort by timestamp`,
          { field: 'sort_by' },
        );
      }
      for (const event of events) {
        selection.offer(event);
      }
      after = next === undefined ? undefined : this.placeOf(next);
    } while (after !== undefined);
    return selection.page();
  }
}

function questionOf(
  query: EventQueryDto,
  direction: 'asc' | 'desc',
  matches: (event: CyclesEvent) => boolean,
  categories: readonly string[],
): EventQuestion {
  const { tenant_id: tenantId = '', correlation_id: correlationId = '', category } = query;
  const conditions: Record<string, string | undefined> = {
    ty: query.event_type,
    category: category ?? categories.join(','),
    tn: tenantId,
    co: correlationId,
    sc: query.scope?.toLowerCase(),
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
    throw new Refusal(
      'INVALID_REQUEST',
      `${field} must be of the categories ${TENANT_EVENT_CATEGORIES.join(', ')}; the others are for operators`,
      { field },
    );
  }
}
