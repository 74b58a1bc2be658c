import { Body, Controller, Patch, Query, Req, Res } from '@nestjs/common';
import { ApiOperation } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Caller } from '../../auth/index.js';
import { Access, Answers, BodySchema, originOf, QuerySchema, sendJson } from '../../http/index.js';
import { compileQuery, compileValidator, stringifyJson } from '../../wire/index.js';
import { BudgetLookupQueryDto, BudgetPeriodUpdateDto } from './budget.dto.js';
import { BudgetChangesService } from './budgets.service.js';

const validateLookup = compileQuery(BudgetLookupQueryDto);
const validatePeriod = compileValidator(BudgetPeriodUpdateDto);

@Controller('ops/budgets/period')
export class BudgetPeriodController {
  constructor(private readonly changes: BudgetChangesService) {}

  @Patch()
  @Access({ plane: 'admin', admin: true })
  @ApiOperation({
    operationId: 'updateBudgetPeriod',
    summary: "Change a budget's period and rollover policy",
  })
  @Answers(200, 'BudgetLedger')
  @BodySchema(BudgetPeriodUpdateDto, {
    period_end: '2100-01-01T00:00:00Z',
    rollover_policy: 'CARRY_FORWARD',
  })
  @QuerySchema(BudgetLookupQueryDto, { scope: 'tenant:acme', unit: 'TOKENS' })
  async update(
    @Req() request: FastifyRequest,
    @Query() query: unknown,
    @Body() body: unknown,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const budget = await this.changes.update(
      request.caller as Caller,
      validateLookup(query),
      validatePeriod(body),
      originOf(request, 'admin'),
    );
    sendJson(reply, 200, stringifyJson(budget));
  }
}
