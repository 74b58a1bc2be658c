import { Injectable } from '@nestjs/common';
import type { TenantCaller } from '../auth/index.js';
import { BudgetsService } from '../governance/index.js';
import { stringifyJson } from '../http/index.js';
import { Refusal, SCOPE_LEVELS } from '../ledger/index.js';
import type { BalancesQueryDto } from './balances.dto.js';

/** GET /v1/balances as cycles-governance-admin-v0.1.25 has it: whole ledgers, filtered by scope prefix and unit. */
@Injectable()
export class LedgersService {
  constructor(private readonly budgets: BudgetsService) {}

  /**
   * The ledgers of the key's tenant inside its scope filter, in the order of their scopes.
   * @returns BalanceListResponse as JSON text
   * @throws Refusal INVALID_REQUEST when a filter of the runtime's view stands beside one of this view; FORBIDDEN for another tenant.
   */
  async list(caller: TenantCaller, query: BalancesQueryDto): Promise<string> {
    const foreign = [...SCOPE_LEVELS, 'include_children' as const].find((name) => query[name] !== undefined);
    if (foreign !== undefined) {
      throw new Refusal(
        'INVALID_REQUEST',
        `${foreign} cannot be combined with tenant_id, scope_prefix or unit: they ask for the governance view`,
        { field: foreign },
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
