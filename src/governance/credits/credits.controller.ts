import { Controller, Get, Param, Patch, Post, Req } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import type { Caller, TenantCaller } from '../../auth/index.js';
import {
  Access,
  type Answer,
  Answers,
  BodySchema,
  LimitedChange,
  LimitedQuery,
  OF_CREDIT,
  Operation,
  originOf,
  QuerySchema,
  tenantsOf,
} from '../../http/index.js';
import { bodyOf, queryOf } from '../../wire/index.js';
import { BudgetLookupQueryDto } from '../budgets/budget.dto.js';
import {
  CreditBulkDto,
  CreditGrantDto,
  CreditListQueryDto,
  CreditUpdateDto,
  CreditVoidDto,
} from './credit.dto.js';
import { CreditsBulkService } from './credits-bulk.service.js';
import { CreditsService } from './credits.service.js';
import { EndingCreditsQueryDto, EndingCreditsService } from './ending-credits.service.js';

@Controller('ops/budgets/credits')
export class CreditsController {
  constructor(
    private readonly credits: CreditsService,
    private readonly bulk: CreditsBulkService,
  ) {}

  @Post()
  @Access({ plane: 'admin', admin: true, confinement: { scopeAt: 'body.scope' } })
  @LimitedChange()
  @Operation('grantCredit', 'Give a budget a credit, which burns before its own allocation, and ends')
  @Answers(201, 'Credit')
  @BodySchema(CreditGrantDto, {
    idempotency_key: 'acme-welcome',
    tenant_id: 'acme',
    scope: 'tenant:acme',
    unit: 'TOKENS',
    amount: { unit: 'TOKENS', amount: 100_000 },
    name: 'Welcome',
    category: 'promotion',
    expires_at: '2099-01-01T00:00:00Z',
    notify_before_ms: 259_200_000,
  })
  grant(@Req() request: FastifyRequest): Promise<Answer<'Credit'>> {
    return this.credits.grant(request.caller as Caller, bodyOf(request, CreditGrantDto), originOf(request));
  }

  @Post('bulk')
  @Access({ plane: 'admin', admin: true, confinement: { tenantAt: 'body.filter.tenant_id' } })
  @LimitedQuery()
  @Operation('grantCredits', "Give a credit to each of a tenant's budgets that match a filter")
  @Answers(200, 'CreditBulkResponse')
  @BodySchema(CreditBulkDto, {
    filter: { tenant_id: 'acme', unit: 'TOKENS' },
    credit: {
      amount: { unit: 'TOKENS', amount: 10_000 },
      name: 'Sorry for the outage',
      expires_at: '2099-01-01T00:00:00Z',
    },
    expected_count: 1,
    idempotency_key: 'acme-outage-1',
  })
  grantAll(@Req() request: FastifyRequest): Promise<string> {
    return this.bulk.apply(bodyOf(request, CreditBulkDto), originOf(request));
  }

  @Get()
  @Access({ plane: 'admin', admin: true, confinement: { scopeAt: 'query.scope' } })
  @LimitedQuery()
  @Operation('listCredits', 'List the credits of a budget in the order in which they burn')
  @Answers(200, 'CreditList')
  @QuerySchema(CreditListQueryDto, { scope: 'tenant:acme', unit: 'TOKENS' })
  list(@Req() request: FastifyRequest): Promise<Answer<'CreditList'>> {
    return this.credits.list(request.caller as Caller, queryOf(request, CreditListQueryDto));
  }

  @Post(':credit_id/void')
  @Access({ plane: 'admin', admin: true, confinement: OF_CREDIT })
  @LimitedChange()
  @Operation('voidCredit', 'End a credit')
  @Answers(200, 'Credit')
  @BodySchema(CreditVoidDto, { reason: 'Granted by mistake' }, { required: false })
  void(@Param('credit_id') creditId: string, @Req() request: FastifyRequest): Promise<Answer<'Credit'>> {
    return this.credits.void(creditId, bodyOf(request, CreditVoidDto, {}), originOf(request));
  }

  @Patch(':credit_id')
  @Access({ plane: 'admin', admin: true, confinement: OF_CREDIT })
  @LimitedChange()
  @Operation('updateCredit', 'Move the end of a credit, or name it anew')
  @Answers(200, 'Credit')
  @BodySchema(CreditUpdateDto, { expires_at: '2099-06-01T00:00:00Z' })
  update(@Param('credit_id') creditId: string, @Req() request: FastifyRequest): Promise<Answer<'Credit'>> {
    return this.credits.update(creditId, bodyOf(request, CreditUpdateDto), originOf(request));
  }
}

/** What ends soon, across budgets. */
@Controller('ops/credits/ending')
export class EndingCreditsController {
  constructor(private readonly credits: EndingCreditsService) {}

  @Get()
  @Access({ plane: 'admin', admin: true, confinement: { filteredAt: 'query.tenant_id' } })
  @LimitedQuery()
  @Operation('listEndingCredits', 'List the budgets whose credits end soon, and what that takes away')
  @Answers(200, 'EndingCreditList')
  @QuerySchema(EndingCreditsQueryDto, { tenant_id: 'acme' })
  list(@Req() request: FastifyRequest): Promise<Answer<'EndingCreditList'>> {
    return this.credits.list(queryOf(request, EndingCreditsQueryDto), tenantsOf(request));
  }
}

/** Credits of one tenant's budgets, for its keys. */
@Controller('v1/credits')
export class TenantCreditsController {
  constructor(private readonly credits: CreditsService) {}

  @Get()
  @Access({ plane: 'runtime', tenant: 'budgets:read' })
  @LimitedQuery()
  @Operation('listOwnCredits', 'List the credits of a budget in the order in which they burn')
  @Answers(200, 'CreditList')
  @QuerySchema(BudgetLookupQueryDto, { scope: 'tenant:acme', unit: 'TOKENS' })
  list(@Req() request: FastifyRequest): Promise<Answer<'CreditList'>> {
    return this.credits.listOwn(request.caller as TenantCaller, queryOf(request, BudgetLookupQueryDto));
  }
}
