import { Body, Controller, Get, Post, Query, Req, Res } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Access, type Caller } from '../../auth/index.js';
import { BodySchema, compileQuery, compileValidator, QuerySchema, sendJson, stringifyJson } from '../../http/index.js';
import { originOf, type Origin } from '../origin.js';
import { BudgetCreateDto, BudgetFundingDto, BudgetFundingQueryDto, BudgetListQueryDto, BudgetLookupQueryDto } from './budget.dto.js';
import { BudgetsService } from './budgets.service.js';
import { FundingService } from './funding.service.js';

const validateCreate = compileValidator(BudgetCreateDto);
const validateList = compileQuery(BudgetListQueryDto);
const validateLookup = compileQuery(BudgetLookupQueryDto);
const validateFunding = compileValidator(BudgetFundingDto);
const validateFundingQuery = compileQuery(BudgetFundingQueryDto);

function callerOf(request: FastifyRequest): Caller {
  return request.caller as Caller;
}

function budgetOrigin(request: FastifyRequest): Origin {
  return originOf(request, 'admin_on_behalf_of');
}

@ApiTags('Budgets')
@Controller('v1/admin/budgets')
export class BudgetsController {
  constructor(
    private readonly budgets: BudgetsService,
    private readonly funding: FundingService,
  ) {}

  @Post()
  @Access({ plane: 'admin', tenant: 'budgets:write', admin: true })
  @ApiOperation({ operationId: 'createBudget', summary: 'Create a budget ledger for a scope' })
  @BodySchema(BudgetCreateDto)
  async create(@Req() request: FastifyRequest, @Body() body: unknown, @Res() reply: FastifyReply): Promise<void> {
    const budget = await this.budgets.create(callerOf(request), validateCreate(body), budgetOrigin(request));
    sendJson(reply, 201, stringifyJson(budget));
  }

  @Get()
  @Access({ plane: 'admin', tenant: 'budgets:read', admin: true })
  @ApiOperation({ operationId: 'listBudgets', summary: 'List budget ledgers' })
  @QuerySchema(BudgetListQueryDto)
  async list(@Req() request: FastifyRequest, @Query() query: unknown, @Res() reply: FastifyReply): Promise<void> {
    const { rows, ...rest } = await this.budgets.list(callerOf(request), validateList(query));
    sendJson(reply, 200, stringifyJson({ ledgers: rows, ...rest }));
  }

  @Get('lookup')
  @Access({ plane: 'admin', tenant: 'budgets:read', admin: true })
  @ApiOperation({ operationId: 'lookupBudget', summary: 'Look up a single budget by exact scope and unit' })
  @QuerySchema(BudgetLookupQueryDto)
  async lookUp(@Req() request: FastifyRequest, @Query() query: unknown, @Res() reply: FastifyReply): Promise<void> {
    sendJson(reply, 200, stringifyJson(await this.budgets.lookUp(callerOf(request), validateLookup(query))));
  }

  @Post('fund')
  @Access({ plane: 'admin', tenant: 'budgets:write', admin: true })
  @ApiOperation({ operationId: 'fundBudget', summary: 'Credit a budget' })
  @BodySchema(BudgetFundingDto)
  @QuerySchema(BudgetFundingQueryDto)
  async fund(
    @Req() request: FastifyRequest,
    @Query() query: unknown,
    @Body() body: unknown,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const funding = await this.funding.credit(
      callerOf(request),
      validateFundingQuery(query),
      validateFunding(body),
      budgetOrigin(request),
    );
    sendJson(reply, 200, stringifyJson(funding));
  }
}
