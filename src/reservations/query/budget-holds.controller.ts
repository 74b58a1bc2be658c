import { Controller, Get, Query, Res } from '@nestjs/common';
import { ApiOperation } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { Access, Answers, LimitedQuery, QuerySchema, sendJson } from '../../http/index.js';
import { compileQuery, stringifyJson } from '../../wire/index.js';
import { BudgetHoldsQueryDto, BudgetHoldsService } from './budget-holds.service.js';

const validateQuery = compileQuery(BudgetHoldsQueryDto);

@Controller('ops/budgets/holds')
export class BudgetHoldsController {
  constructor(private readonly holds: BudgetHoldsService) {}

  @Get()
  @Access({ plane: 'admin', admin: true })
  @LimitedQuery()
  @ApiOperation({
    operationId: 'listBudgetHolds',
    summary: 'List the live holds of a budget by when their amounts are back',
  })
  @Answers(200, 'BudgetHoldList')
  @QuerySchema(BudgetHoldsQueryDto, { scope: 'tenant:acme', unit: 'TOKENS' })
  async list(@Query() query: unknown, @Res() reply: FastifyReply): Promise<void> {
    sendJson(reply, 200, stringifyJson(await this.holds.list(validateQuery(query))));
  }
}
