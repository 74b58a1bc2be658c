import type { Caller, ScopeFilter } from '../../auth/index.js';
import { decodeCursor, instantMs, sortOrderOf, type Position, type SortOrder } from '../../http/index.js';
import { fingerprintOf, Refusal } from '../../ledger/index.js';
import { SORT_KEYS, type ListReservationsQueryDto, type SortKey } from './list-reservations.dto.js';

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

/** What a list is asked, checked and in canonical form. */
export interface ListQuestion {
  readonly tenantId: string;
  readonly scopeFilter: ScopeFilter;
  /** What a row must satisfy beside its creation time, name and value in turn, as lua/list_reservations.lua reads them. */
  readonly conditions: readonly string[];
  /** The window of created_at_ms, inclusive. */
  readonly fromMs: number | undefined;
  readonly toMs: number | undefined;
  /** A question by idempotency key has one answer at most, the newest, whatever order is asked for. */
  readonly single: boolean;
  readonly order: SortOrder<SortKey>;
  readonly limit: number;
  readonly after: Position | undefined;
  /** Names all of the above but the limit and the place: a cursor continues only the same question. */
  readonly fingerprint: string;
}

/**
 * @throws Refusal INVALID_REQUEST (an operator names no tenant, a window ends before it starts, a foreign cursor), FORBIDDEN
 * (another tenant than the key's).
 */
export function listQuestion(caller: Caller, query: ListReservationsQueryDto): ListQuestion {
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
    after: placeOf(query.cursor, fingerprint, order.sortBy),
    fingerprint,
  };
}

/** The words may come in any case. */
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
      throw new Refusal(
        'INVALID_REQUEST',
        'tenant query parameter is required when using admin key authentication',
        { field: 'tenant' },
      );
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
      throw new Refusal('INVALID_REQUEST', `${start} must not be later than ${end}`, { field: start });
    }
    bounds[start] = from;
    bounds[end] = to;
  }
  return bounds;
}

/** A forged place goes no further than this: the script relies on figures that are figures. */
function placeOf(cursor = '', fingerprint: string, sortBy: SortKey): Position | undefined {
  if (cursor === '') {
    return undefined;
  }
  const type = sortBy === 'reserved' || sortBy.endsWith('_at_ms') ? 'bigint' : 'string';
  return decodeCursor(
    fingerprint,
    cursor,
    ({ value, id }) => typeof value === type && RESERVATION_ID.test(id),
  );
}
