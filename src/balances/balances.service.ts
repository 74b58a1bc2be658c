import { Injectable } from '@nestjs/common';
import { scopeAllowed, type TenantCaller } from '../auth/index.js';
import { decodeCursor, encodeCursor } from '../http/index.js';
import { balanceJson, fingerprintOf, Refusal, SCOPE_LEVELS } from '../ledger/index.js';
import { budgetIndexKey, partitionCode, partitionOfTenant, RedisService, tagOf } from '../redis/index.js';
import type { BalancesQueryDto } from './balances.dto.js';

const DEFAULT_LIMIT = 50;

/** GET /v1/balances: the budgets that match a subject, a page at a time, each page from one instant. */
@Injectable()
export class BalancesService {
  constructor(private readonly redis: RedisService) {}

  /**
   * A scope matches when it holds every segment asked for and ends with the deepest of them; `include_children` adds what
   * lies below. Segments match whole.
   * @returns BalanceResponse of the protocol as JSON text
   * @throws Refusal INVALID_REQUEST without a subject filter or with a cursor of another query, FORBIDDEN for another tenant.
   */
  async list(caller: TenantCaller, query: BalancesQueryDto): Promise<string> {
    const given = SCOPE_LEVELS.filter((level) => query[level] !== undefined);
    if (given.length === 0) {
      throw new Refusal('INVALID_REQUEST', `at least one of ${SCOPE_LEVELS.join(', ')} must be given`);
    }
    if (query.tenant !== undefined && query.tenant.toLowerCase() !== caller.tenantId) {
      throw new Refusal('FORBIDDEN', 'tenant is not the tenant of the API key', { field: 'tenant' });
    }
    const segments = given.filter((level) => level !== 'tenant').map((level) => `${level}:${query[level]?.toLowerCase()}`);
    segments.unshift(`tenant:${caller.tenantId}`);
    const deepest = segments.pop() as string;
    const children = query.include_children === true;
    const question = fingerprintOf([...segments, deepest, children]);
    const after = query.cursor === undefined ? '' : String(decodeCursor(question, query.cursor).value);
    const tag = tagOf(partitionCode(partitionOfTenant(caller.tenantId, this.redis.partitions)));
    const [next, ...found] = await this.redis.scripts.run(
      'balances',
      [budgetIndexKey(tag, caller.tenantId)],
      [after, query.limit ?? DEFAULT_LIMIT, children ? 1 : 0, deepest, ...segments],
    );
    const balances: string[] = [];
    for (let index = 0; index < found.length; index += 3) {
      const [scope, unit, figures] = found.slice(index, index + 3) as [string, string, string];
      if (caller.scopeFilter.length === 0 || scopeAllowed(caller.scopeFilter, scope)) {
        balances.push(balanceJson(scope, unit, figures));
      }
    }
    const more = next === undefined || next === '' ? '"has_more":false' : `"has_more":true,"next_cursor":"${encodeCursor(question, { value: next, id: '' })}"`;
    return `{"balances":[${balances.join(',')}],${more}}`;
  }
}
