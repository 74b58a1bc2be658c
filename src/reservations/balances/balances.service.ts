import { Injectable } from '@nestjs/common';
import { IsBoolean, IsIn, IsString } from 'class-validator';
import { scopeAllowed, type TenantCaller } from '../../auth/index.js';
import { BudgetsService } from '../../governance/index.js';
import {
  balanceJson,
  fingerprintOf,
  invalidField,
  Refusal,
  SCOPE_LEVELS,
  treeOrder,
  type Unit,
  UNITS,
} from '../../ledger/index.js';
import {
  budgetIndexKey,
  RedisService,
  type ScriptReply,
  SkippedRecords,
  tagOfTenant,
} from '../../redis/index.js';
import {
  decodeCursor,
  encodeCursor,
  MaxLength,
  Optional,
  PageCursor,
  PageLimit,
  stringifyJson,
} from '../../wire/index.js';
import { SubjectLevelsDto } from '../request-parts.dto.js';

/** Query of GET /v1/balances: subject levels for the runtime view, budget filters for the governance view, and paging. */
export class BalancesQueryDto extends SubjectLevelsDto {
  @Optional(IsBoolean())
  include_children?: boolean;

  @Optional(IsString())
  tenant_id?: string;

  @Optional(MaxLength(1024))
  scope_prefix?: string;

  @Optional(IsIn(UNITS))
  unit?: Unit;

  @PageLimit(200)
  limit?: number;

  @PageCursor()
  cursor?: string;
}

const DEFAULT_LIMIT = 50;
/** Entries of a tenant's budget index that one script examines: about a millisecond of Redis' time. */
const EXAMINED_A_RUN = 500;

type FoundBalance = ScriptReply<'balances'>['budgets'][number];

interface BalanceFilter {
  /** The segments that every matching scope starts with, joined by slashes. */
  readonly prefix: string;
  readonly deepest: string;
  /** The other segments that a scope must contain. */
  readonly segments: readonly string[];
  readonly children: boolean;
  /** Of the key. */
  readonly scopeFilter: readonly string[];
}

/** GET /v1/balances: the budgets that match a subject, in pages. All figures of one budget are from the same instant. */
@Injectable()
export class BalancesService {
  constructor(
    private readonly redis: RedisService,
    private readonly skipped: SkippedRecords,
  ) {}

  /**
   * A scope matches if it contains every segment of the query and ends with the deepest one. `include_children` also matches
   * scopes below that. Segments match only as a whole.
   * @returns BalanceResponse of the protocol as JSON text
   * @throws Refusal INVALID_REQUEST without a subject level or with another query's cursor, FORBIDDEN for another tenant.
   */
  async list(caller: TenantCaller, query: BalancesQueryDto): Promise<string> {
    const given = SCOPE_LEVELS.filter((level) => query[level] !== undefined);
    if (given.length === 0) {
      throw new Refusal(
        'INVALID_REQUEST',
        `give at least one of ${SCOPE_LEVELS.join(', ')}, or one of tenant_id, scope_prefix, unit for the governance view`,
      );
    }
    if (query.tenant !== undefined && query.tenant.toLowerCase() !== caller.tenantId) {
      throw new Refusal('FORBIDDEN', 'tenant is not the tenant of the API key', { field: 'tenant' });
    }
    const segments = given
      .filter((level) => level !== 'tenant')
      .map((level) => `${level}:${query[level]?.toLowerCase()}`);
    segments.unshift(`tenant:${caller.tenantId}`);
    const deepest = segments.pop() as string;
    const children = query.include_children === true;
    const fingerprint = fingerprintOf([...segments, deepest, children]);
    const after = query.cursor === undefined ? '' : String(decodeCursor(fingerprint, query.cursor).value);
    const tag = tagOfTenant(caller.tenantId, this.redis.partitions);
    // Up to the first missing level, the levels given are exactly how a matching scope starts.
    const gap = SCOPE_LEVELS.slice(1).findIndex((level) => query[level] === undefined);
    const prefix = [...segments, deepest].slice(0, gap === -1 ? undefined : gap + 1).join('/');
    const limit = query.limit ?? DEFAULT_LIMIT;
    // One row more than the page holds shows whether there is another page.
    const found = await this.find(
      budgetIndexKey(tag, caller.tenantId),
      { prefix, deepest, segments, children, scopeFilter: caller.scopeFilter },
      after,
      limit + 1,
    );
    const last = found.length > limit ? found[limit - 1] : undefined;
    const balances = found
      .slice(0, limit)
      .filter(({ scope }) => caller.scopeFilter.length === 0 || scopeAllowed(caller.scopeFilter, scope))
      .map(({ scope, unit, balance }) => balanceJson(scope, unit, balance));
    const more =
      last === undefined
        ? '"has_more":false'
        : `"has_more":true,"next_cursor":"${encodeCursor(fingerprint, { value: treeOrder(`${last.scope} ${last.unit}`), id: '' })}"`;
    return `{"balances":[${balances.join(',')}],${more}}`;
  }

  /** The next matching budgets, in the order of the index. @throws StoreUnavailable */
  private async find(
    index: string,
    { prefix, deepest, segments, children, scopeFilter }: BalanceFilter,
    after: string,
    wanted: number,
  ): Promise<FoundBalance[]> {
    const found: FoundBalance[] = [];
    for (let place = after; ;) {
      const { next, budgets, damaged } = await this.redis.queries.call(
        'balances',
        { budgetIndex: index },
        {
          after: place,
          limit: wanted - found.length,
          examine: EXAMINED_A_RUN,
          includeChildren: children ? 1 : 0,
          prefix,
          deepest,
          rest: segments,
        },
      );
      found.push(...budgets);
      for (const { scope, unit } of damaged) {
        if (scopeAllowed(scopeFilter, scope)) {
          this.skipped.skip('budget', `${scope} ${unit}`);
        }
      }
      if (next === undefined || found.length === wanted) {
        return found;
      }
      place = next;
    }
  }
}

/** GET /v1/balances of cycles-governance-admin-v0.1.25: budgets as full BudgetLedger objects, filtered by scope prefix and unit. */
@Injectable()
export class LedgersService {
  constructor(private readonly budgets: BudgetsService) {}

  /**
   * The budgets of the key's tenant inside its scope filter, ordered by scope.
   * @returns BalanceListResponse as JSON text
   * @throws Refusal INVALID_REQUEST when filters of both views are combined, FORBIDDEN for another tenant.
   */
  async list(caller: TenantCaller, query: BalancesQueryDto): Promise<string> {
    const conflicting = [...SCOPE_LEVELS, 'include_children' as const].find(
      (name) => query[name] !== undefined,
    );
    if (conflicting !== undefined) {
      throw invalidField(
        conflicting,
        `${conflicting} cannot be combined with tenant_id, scope_prefix or unit, which select the governance view`,
      );
    }
    const { tenant_id, scope_prefix, unit, limit, cursor } = query;
    const { rows, ...rest } = await this.budgets.list(caller, {
      sort_by: 'scope',
      sort_dir: 'asc',
      ...(tenant_id === undefined ? {} : { tenant_id }),
      ...(scope_prefix === undefined ? {} : { scope_prefix }),
      ...(unit === undefined ? {} : { unit }),
      ...(limit === undefined ? {} : { limit }),
      ...(cursor === undefined ? {} : { cursor }),
    });
    return stringifyJson({ balances: rows, ...rest });
  }
}
