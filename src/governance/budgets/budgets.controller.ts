import { Controller, Get, Patch, Post, Req } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import type { Caller } from '../../auth/index.js';
import {
  Access,
  type Answer,
  Answers,
  BodySchema,
  LimitedChange,
  LimitedQuery,
  Operation,
  originOf,
  QuerySchema,
} from '../../http/index.js';
import { bodyOf, type Origin, queryOf } from '../../wire/index.js';
import { BudgetBulkActionService } from './budget-bulk-action.service.js';
import {
  BudgetBulkActionDto,
  BudgetCreateDto,
  BudgetFundingDto,
  BudgetFundingQueryDto,
  BudgetListQueryDto,
  BudgetLookupQueryDto,
  BudgetStatusTransitionDto,
  BudgetUpdateDto,
} from './budget.dto.js';
import { BudgetChangesService, BudgetsService } from './budgets.service.js';
import { FundingService } from './funding.service.js';

function callerOf(request: FastifyRequest): Caller {
  return request.caller as Caller;
}

function budgetOrigin(request: FastifyRequest): Origin {
  return originOf(request, 'admin_on_behalf_of');
}

@Controller('v1/admin/budgets')
export class BudgetsController {
  constructor(
    private readonly budgets: BudgetsService,
    private readonly changes: BudgetChangesService,
    private readonly funding: FundingService,
    private readonly bulk: BudgetBulkActionService,
  ) {}

  @Post()
  @Access({ plane: 'admin', tenant: 'budgets:write', admin: true, confinement: { scopeAt: 'body.scope' } })
  @LimitedChange()
  @Operation('createBudget', 'Create a budget ledger for a scope')
  @Answers(201, 'BudgetLedger')
  @BodySchema(BudgetCreateDto, {
    tenant_id: 'acme',
    scope: 'tenant:acme',
    unit: 'TOKENS',
    allocated: { unit: 'TOKENS', amount: 1_000_000 },
  })
  create(@Req() request: FastifyRequest): Promise<Answer<'BudgetLedger'>> {
    return this.budgets.create(callerOf(request), bodyOf(request, BudgetCreateDto), budgetOrigin(request));
  }

  @Get()
  @Access({
    plane: 'admin',
    tenant: 'budgets:read',
    admin: true,
    confinement: { filteredAt: 'query.tenant_id' },
  })
  @LimitedQuery()
  @Operation('listBudgets', 'List budget ledgers')
  @Answers(200, 'BudgetListResponse')
  @QuerySchema(BudgetListQueryDto, { tenant_id: 'acme' })
  async list(@Req() request: FastifyRequest): Promise<Answer<'BudgetListResponse'>> {
    const { rows, ...rest } = await this.budgets.list(
      callerOf(request),
      queryOf(request, BudgetListQueryDto),
    );
    return { ledgers: rows, ...rest };
  }

  @Get('lookup')
  @Access({ plane: 'admin', tenant: 'budgets:read', admin: true, confinement: { scopeAt: 'query.scope' } })
  @Operation('lookupBudget', 'Look up a single budget by exact scope and unit')
  @Answers(200, 'BudgetLedger')
  @QuerySchema(BudgetLookupQueryDto, { scope: 'tenant:acme', unit: 'TOKENS' })
  lookUp(@Req() request: FastifyRequest): Promise<Answer<'BudgetLedger'>> {
    return this.budgets.lookUp(callerOf(request), queryOf(request, BudgetLookupQueryDto));
  }

  @Patch()
  @Access({ plane: 'admin', admin: true, confinement: { scopeAt: 'query.scope' } })
  @LimitedChange()
  @Operation('updateBudget', 'Update budget properties')
  @Answers(200, 'BudgetLedger')
  @BodySchema(BudgetUpdateDto, { overdraft_limit: { unit: 'TOKENS', amount: 50_000 } })
  @QuerySchema(BudgetLookupQueryDto, { scope: 'tenant:acme', unit: 'TOKENS' })
  update(@Req() request: FastifyRequest): Promise<Answer<'BudgetLedger'>> {
    return this.changes.update(
      callerOf(request),
      queryOf(request, BudgetLookupQueryDto),
      bodyOf(request, BudgetUpdateDto),
      originOf(request),
    );
  }

  @Post('freeze')
  @Access({ plane: 'admin', admin: true, confinement: { scopeAt: 'query.scope' } })
  @LimitedChange()
  @Operation('freezeBudget', 'Freeze a budget (ACTIVE → FROZEN)')
  @Answers(200, 'BudgetLedger')
  @BodySchema(BudgetStatusTransitionDto, { reason: 'Spending is under review' }, { required: false })
  @QuerySchema(BudgetLookupQueryDto, { scope: 'tenant:acme', unit: 'TOKENS' })
  freeze(@Req() request: FastifyRequest): Promise<Answer<'BudgetLedger'>> {
    return this.setFrozen('freeze', request);
  }

  @Post('unfreeze')
  @Access({ plane: 'admin', admin: true, confinement: { scopeAt: 'query.scope' } })
  @LimitedChange()
  @Operation('unfreezeBudget', 'Unfreeze a budget (FROZEN → ACTIVE)')
  @Answers(200, 'BudgetLedger')
  @BodySchema(BudgetStatusTransitionDto, { reason: 'The review is over' }, { required: false })
  @QuerySchema(BudgetLookupQueryDto, { scope: 'tenant:acme', unit: 'TOKENS' })
  unfreeze(@Req() request: FastifyRequest): Promise<Answer<'BudgetLedger'>> {
    return this.setFrozen('unfreeze', request);
  }

  @Post('fund')
  @Access({
    plane: 'admin',
    tenant: 'budgets:write',
    admin: true,
    confinement: { tenantAt: 'query.tenant_id' },
  })
  @LimitedChange()
  @Operation(
    'fundBudget',
    'Credit, debit, or adjust budget allocation',
    'With the admin key, `tenant_id` is required.',
  )
  @Answers(200, 'BudgetFundingResponse')
  @BodySchema(BudgetFundingDto, {
    operation: 'CREDIT',
    amount: { unit: 'TOKENS', amount: 500_000 },
    reason: 'Top-up',
    idempotency_key: 'top-up-1',
  })
  @QuerySchema(BudgetFundingQueryDto, { tenant_id: 'acme', scope: 'tenant:acme', unit: 'TOKENS' })
  fund(@Req() request: FastifyRequest): Promise<Answer<'BudgetFundingResponse'>> {
    return this.funding.fund(
      callerOf(request),
      queryOf(request, BudgetFundingQueryDto),
      bodyOf(request, BudgetFundingDto),
      budgetOrigin(request),
    );
  }

  @Post('bulk-action')
  @Access({ plane: 'admin', admin: true, confinement: { tenantAt: 'body.filter.tenant_id' } })
  @LimitedQuery()
  @Operation('bulkActionBudgets', "Fund all of a tenant's budgets that match a filter")
  @Answers(200, 'BudgetBulkActionResponse')
  @BodySchema(BudgetBulkActionDto, {
    filter: { tenant_id: 'acme', unit: 'TOKENS' },
    action: 'RESET_SPENT',
    amount: { unit: 'TOKENS', amount: 1_000_000 },
    reason: 'New billing period',
    expected_count: 1,
    idempotency_key: 'acme-new-period-1',
  })
  bulkAction(@Req() request: FastifyRequest): Promise<string> {
    return this.bulk.apply(bodyOf(request, BudgetBulkActionDto), budgetOrigin(request));
  }

  /** The body is optional. */
  private setFrozen(verb: 'freeze' | 'unfreeze', request: FastifyRequest): Promise<Answer<'BudgetLedger'>> {
    return this.changes.setFrozen(
      verb,
      callerOf(request),
      queryOf(request, BudgetLookupQueryDto),
      bodyOf(request, BudgetStatusTransitionDto, {}),
      originOf(request),
    );
  }
}
