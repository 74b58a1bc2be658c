import { IsArray, IsString } from 'class-validator';
import type { Caller, ScopeFilter } from '../../auth/index.js';
import { fingerprintOf, invalidField, Refusal } from '../../ledger/index.js';
import {
  instantMs,
  IsInAnyCase,
  Length,
  Optional,
  PageCursor,
  PageLimit,
  placeAfter,
  type Position,
  type SortOrder,
  sortOrderOf,
  WindowBound,
} from '../../wire/index.js';
import { IDEMPOTENCY_KEY_MAX_LENGTH, Level } from '../request-parts.dto.js';

/** ReservationStatus of the protocol. */
export const RESERVATION_STATUSES = ['ACTIVE', 'COMMITTED', 'RELEASED', 'EXPIRED'] as const;

export const SORT_KEYS = [
  'reservation_id',
  'tenant',
  'scope_path',
  'status',
  'reserved',
  'created_at_ms',
  'expires_at_ms',
] as const;
export type SortKey = (typeof SORT_KEYS)[number];

/** Query of GET /v1/reservations. A blank bound, tenant or cursor counts as absent. */
export class ListReservationsQueryDto {
  @Optional(Length(1, IDEMPOTENCY_KEY_MAX_LENGTH))
  idempotency_key?: string;

  @Optional(IsInAnyCase(RESERVATION_STATUSES))
  status?: string;

  /** Its form is not checked: any value but the key's own tenant is refused as FORBIDDEN. */
  @Optional(IsString())
  tenant?: string;

  @Level()
  workspace?: string;

  @Level()
  app?: string;

  @Level()
  workflow?: string;

  @Level()
  agent?: string;

  @Level()
  toolset?: string;

  @WindowBound()
  from?: string;

  @WindowBound()
  to?: string;

  @WindowBound()
  expires_from?: string;

  @WindowBound()
  expires_to?: string;

  @WindowBound()
  finalized_from?: string;

  @WindowBound()
  finalized_to?: string;

  @Optional(IsInAnyCase(SORT_KEYS))
  sort_by?: string;

  @Optional(IsInAnyCase(['asc', 'desc']))
  sort_dir?: string;

  /** Unknown names are ignored, because another version of the protocol may define them. */
  @Optional()
  @IsArray()
  @IsString({ each: true })
  include?: string[];

  @PageLimit(200)
  limit?: number;

  @PageCursor()
  cursor?: string;
}

const DEFAULT_LIMIT = 50;
const LEVELS = ['workspace', 'app', 'workflow', 'agent', 'toolset'] as const;
const WINDOWS = [
  ['from', 'to'],
  ['expires_from', 'expires_to'],
  ['finalized_from', 'finalized_to'],
] as const;
const NEWEST_FIRST: SortOrder<SortKey> = { sortBy: 'created_at_ms', direction: 'desc' };
const RESERVATION_ID = /^rsv_[0-9A-Za-z]{18}$/;

type WindowBound = (typeof WINDOWS)[number][number];

/** The query of a list, checked and in canonical form. */
export interface ListQuery {
  readonly tenantId: string;
  readonly scopeFilter: ScopeFilter;
  /** Conditions on a row besides its creation time, as alternating names and values for lua/ledger/list_reservations.lua. */
  readonly conditions: readonly string[];
  /** The window of created_at_ms, inclusive. */
  readonly fromMs: number | undefined;
  readonly toMs: number | undefined;
  /** A query by idempotency key returns at most one reservation, the newest, whatever the order. */
  readonly single: boolean;
  readonly order: SortOrder<SortKey>;
  readonly limit: number;
  readonly after: Position | undefined;
  /** Covers everything above but `limit` and `after`, because a cursor only continues the query it came from. */
  readonly fingerprint: string;
}

/**
 * @throws Refusal INVALID_REQUEST (an operator names no tenant, a window ends before it starts, another query's cursor), FORBIDDEN
 * (not the key's tenant).
 */
export function listQueryOf(caller: Caller, query: ListReservationsQueryDto): ListQuery {
  const tenantId = tenantOf(caller, query.tenant);
  const bounds = windowsOf(query);
  const single = query.idempotency_key !== undefined;
  const order = single ? NEWEST_FIRST : orderOf(query);
  const conditions: string[] = [];
  const require = (name: string, value: string | number | undefined): void => {
    if (value !== undefined) {
      conditions.push(name, String(value));
    }
  };
  require('status', query.status?.toUpperCase());
  require('idempotency_key', query.idempotency_key);
  for (const level of LEVELS) {
    require(level, query[level]?.toLowerCase());
  }
  for (const name of ['expires_from', 'expires_to', 'finalized_from', 'finalized_to'] as const) {
    require(name, bounds[name]);
  }
  const created = [bounds.from ?? '', bounds.to ?? ''].map(String);
  const fingerprint = fingerprintOf([
    'reservations',
    tenantId,
    ...conditions,
    ...created,
    order.sortBy,
    order.direction,
  ]);
  return {
    tenantId,
    scopeFilter: caller.kind === 'tenant' ? caller.scopeFilter : [],
    conditions,
    fromMs: bounds.from,
    toMs: bounds.to,
    single,
    order,
    limit: query.limit ?? DEFAULT_LIMIT,
    after: positionOfCursor(query.cursor, fingerprint, order.sortBy),
    fingerprint,
  };
}

/** sort_by and sort_dir are case-insensitive. */
function orderOf({
  sort_by: sortBy,
  sort_dir: direction,
  cursor,
}: ListReservationsQueryDto): SortOrder<SortKey> {
  return sortOrderOf(
    {
      sort_by: sortBy?.toLowerCase() as SortKey | undefined,
      sort_dir: direction?.toLowerCase() as 'asc' | 'desc' | undefined,
      cursor,
    },
    SORT_KEYS,
    NEWEST_FIRST,
  );
}

function tenantOf(caller: Caller, named = ''): string {
  const tenantId = named.trim().toLowerCase();
  if (caller.kind === 'admin') {
    if (tenantId === '') {
      throw invalidField('tenant', 'tenant query parameter is required when using admin key authentication');
    }
    return tenantId;
  }
  if (tenantId !== '' && tenantId !== caller.tenantId) {
    throw new Refusal('FORBIDDEN', 'tenant is not the tenant of the API key', { field: 'tenant' });
  }
  return caller.tenantId;
}

function windowsOf(query: ListReservationsQueryDto): Partial<Record<WindowBound, number | undefined>> {
  const bounds: Partial<Record<WindowBound, number | undefined>> = {};
  for (const [start, end] of WINDOWS) {
    const [from, to] = [instantMs(query[start]), instantMs(query[end])];
    if (from !== undefined && to !== undefined && from > to) {
      throw invalidField(start, `${start} must not be later than ${end}`);
    }
    bounds[start] = from;
    bounds[end] = to;
  }
  return bounds;
}

/** Rejects a forged position here, because the script relies on its numbers being numbers. */
function positionOfCursor(
  cursor: string | undefined,
  fingerprint: string,
  sortBy: SortKey,
): Position | undefined {
  const type = sortBy === 'reserved' || sortBy.endsWith('_at_ms') ? 'bigint' : 'string';
  return placeAfter(fingerprint, cursor, ({ value, id }) => typeof value === type && RESERVATION_ID.test(id));
}
