import { Injectable } from '@nestjs/common';
import { patternsText, type Tenants } from '../auth/index.js';
import { fingerprintOf, invalidField, parseScopePath, tenantOfScope } from '../ledger/index.js';
import { isStreamId } from '../redis/index.js';
import {
  encodeCursor,
  type Format,
  FORMATS,
  instantMs,
  IsInAnyCase,
  Length,
  Obeys,
  Optional,
  PageCursor,
  PageLimit,
  placeAfter,
} from '../wire/index.js';
import {
  CSV_HEAD,
  type Expiration,
  EXPIRATION_STATES,
  type ExpirationState,
  ExpirationFeed,
  type ExpirationPlace,
  type ExpirationSearch,
  rowCsv,
  rowJson,
} from './expiration-feed.js';

const MILLISECONDS = /^-?\d{1,14}$/;

/** A bound of the window in ms since 1970, from a date-time or from milliseconds. Undefined for a blank one. */
export function boundMs(text: string | undefined): number | undefined {
  return text !== undefined && MILLISECONDS.test(text) ? Number(text) : instantMs(text);
}

export function IsBound(): PropertyDecorator {
  return Obeys({
    name: 'isBound',
    test: (value) => typeof value === 'string' && (value.trim() === '' || boundMs(value) !== undefined),
    schema: { type: 'string' },
    phrase:
      "a date-time such as 2026-01-31T12:00:00Z (a '+' is written %2B in a URL), or milliseconds since 1970, or blank for no bound",
  });
}

/** The filter of the operators' queries by tenant. */
export class TenantFilterDto {
  @Optional(Length(1, 64))
  tenant_id?: string;

  /** What `tenant_id` was called before 0.7. */
  @Optional(Length(1, 64))
  tenant?: string;

  @PageCursor()
  cursor?: string;
}

/** @throws Refusal INVALID_REQUEST if both names of the filter are used for different tenants. */
export function tenantOf({ tenant_id: tenantId, tenant }: TenantFilterDto): string | undefined {
  const [named, other] = [tenantId ?? tenant, tenant ?? tenantId].map((text) => text?.trim().toLowerCase());
  if (named !== other) {
    throw invalidField('tenant', 'tenant is an old name of tenant_id; give only tenant_id');
  }
  return named;
}

/** What GET /ops/expirations and GET /ops/expirations/counts filter by. A blank value counts as absent. */
export class ExpirationFiltersDto extends TenantFilterDto {
  /** The reservation's scope, or one above it. */
  @Optional(Length(1, 1024))
  scope?: string;

  @Optional(IsInAnyCase(EXPIRATION_STATES))
  state?: string;
}

/** Query of GET /ops/expirations. Both bounds are inclusive. */
export class ExpirationsQueryDto extends ExpirationFiltersDto {
  @Optional(IsBound())
  from?: string;

  @Optional(IsBound())
  to?: string;

  /** Rows per page. An export is not limited by default. */
  @PageLimit(1000)
  limit?: number;

  /** Overrides the Accept header. */
  @Optional(IsInAnyCase(FORMATS))
  format?: string;
}

const DEFAULT_LIMIT = 100;
/** The size of the chunks of an export. */
const CHUNK_CHARACTERS = 16 * 1024;
const PLACE_ID = /^(\d{1,3}) (\d+-\d+)$/;

/** GET /ops/expirations: the expirations in a time window, in order. */
@Injectable()
export class ExpirationsService {
  constructor(private readonly feed: ExpirationFeed) {}

  /**
   * @param tenants that the operator is confined to
   * @returns a page as JSON text
   * @throws Refusal INVALID_REQUEST: a window that ends before it starts, a scope that is malformed or another tenant's, another query's
   * cursor.
   */
  async page(query: ExpirationsQueryDto, tenants: Tenants): Promise<string> {
    const { search, after, fingerprint } = parse(query, tenants);
    const limit = query.limit ?? DEFAULT_LIMIT;
    const rows: Expiration[] = [];
    for await (const expiration of this.feed.read(search, after)) {
      rows.push(expiration);
      // One row more than the page holds shows whether there is another page.
      if (rows.length > limit) {
        break;
      }
    }
    const shown = rows.slice(0, limit);
    const last = shown.at(-1);
    const more =
      rows.length > limit && last !== undefined
        ? `true,"next_cursor":"${cursorOf(fingerprint, last)}"`
        : 'false';
    return `{"expirations":[${shown.map(rowJson).join(',')}],"has_more":${more}}`;
  }

  /**
   * All rows of the window, or up to the limit, in chunks that are read on demand.
   * @throws Refusal as `page` does, before the first chunk.
   */
  export(
    query: ExpirationsQueryDto,
    format: Exclude<Format, 'json'>,
    tenants: Tenants,
  ): AsyncGenerator<string> {
    const { search, after } = parse(query, tenants);
    const rows = this.feed.read(search, after);
    return format === 'csv'
      ? chunks(rows, query.limit, rowCsv, CSV_HEAD)
      : chunks(rows, query.limit, (row) => `${rowJson(row)}\n`);
  }
}

async function* chunks(
  rows: AsyncGenerator<Expiration>,
  limit: number | undefined,
  line: (row: Expiration) => string,
  head = '',
): AsyncGenerator<string> {
  let text = head;
  let left = limit ?? Infinity;
  for await (const row of rows) {
    text += line(row);
    left -= 1;
    if (left === 0) {
      break;
    }
    if (text.length >= CHUNK_CHARACTERS) {
      yield text;
      text = '';
    }
  }
  yield text;
}

interface ParsedQuery {
  readonly search: ExpirationSearch;
  readonly after: ExpirationPlace | undefined;
  readonly fingerprint: string;
}

function parse(query: ExpirationsQueryDto, tenants: Tenants): ParsedQuery {
  const search = searchOf(query, [boundMs(query.from), boundMs(query.to)], tenants);
  const fingerprint = fingerprintOf(['expirations', ...valuesOf(search)]);
  return { search, after: placeOf(query.cursor, fingerprint), fingerprint };
}

/** What a cursor's fingerprint is of. */
export function valuesOf({
  fromMs,
  toMs,
  tenantId,
  tenants,
  scope,
  state,
}: ExpirationSearch): (string | number)[] {
  return [fromMs ?? '', toMs ?? '', tenantId ?? '', patternsText(tenants), scope ?? '', state];
}

/** @throws Refusal INVALID_REQUEST: a window that ends before it starts, a scope that is malformed or another tenant's */
export function searchOf<Bound extends number | undefined>(
  query: ExpirationFiltersDto,
  [fromMs, toMs]: readonly [Bound, Bound],
  tenants: Tenants,
): ExpirationSearch & { readonly fromMs: Bound; readonly toMs: Bound } {
  if (fromMs !== undefined && toMs !== undefined && fromMs > toMs) {
    throw invalidField('from', 'from must not be later than to');
  }
  const scope = query.scope === undefined ? undefined : parseScopePath(query.scope);
  const ofScope = scope === undefined ? undefined : tenantOfScope(scope);
  const named = tenantOf(query);
  if (named !== undefined && ofScope !== undefined && named !== ofScope) {
    throw invalidField('scope', "the scope is not one of the tenant's");
  }
  // A blank tenant matches nothing, not everything.
  const tenantId = named ?? ofScope;
  const state = (query.state?.toUpperCase() ?? 'EXPIRED') as ExpirationState;
  return { fromMs, toMs, tenantId, tenants, scope, state };
}

function cursorOf(fingerprint: string, { atMs, partition, entryId }: Expiration): string {
  return encodeCursor(fingerprint, { value: atMs, id: `${partition} ${entryId}` });
}

function placeOf(cursor: string | undefined, fingerprint: string): ExpirationPlace | undefined {
  const after = placeAfter(
    fingerprint,
    cursor,
    ({ value, id }) => Number.isSafeInteger(value) && isStreamId(PLACE_ID.exec(id)?.[2] ?? ''),
  );
  const [, partition, entryId = ''] = PLACE_ID.exec(after?.id ?? '') ?? [];
  return after && { atMs: after.value as number, partition: Number(partition), entryId };
}
