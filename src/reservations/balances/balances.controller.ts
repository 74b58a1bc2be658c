import { Controller, Get, Req } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import type { TenantCaller } from '../../auth/index.js';
import { Access, Answers, LimitedQuery, Operation, QuerySchema } from '../../http/index.js';
import { queryOf } from '../../wire/index.js';
import { BalancesQueryDto, BalancesService, LedgersService } from './balances.service.js';

const GOVERNANCE_FILTERS = ['tenant_id', 'scope_prefix', 'unit'] as const;

/** Both protocol documents define this operation. A filter that only the governance document has selects its view. */
export function isGovernanceView(query: BalancesQueryDto): boolean {
  return GOVERNANCE_FILTERS.some((name) => query[name] !== undefined);
}

@Controller('v1/balances')
export class BalancesController {
  constructor(
    private readonly service: BalancesService,
    private readonly ledgers: LedgersService,
  ) {}

  @Get()
  @Access({ plane: 'runtime', tenant: 'balances:read' })
  @LimitedQuery()
  @Operation('getBalances', 'Query current budget balances across scopes')
  @Answers(
    200,
    'BalanceResponse',
    'Balances of a subject; with tenant_id, scope_prefix or unit each is a BudgetLedger, as in listBudgets',
  )
  @QuerySchema(BalancesQueryDto, { tenant: 'acme' })
  async list(@Req() request: FastifyRequest): Promise<string> {
    const asked = queryOf(request, BalancesQueryDto);
    const service = isGovernanceView(asked) ? this.ledgers : this.service;
    return service.list(request.caller as TenantCaller, asked);
  }
}
