import { Controller, Get, Req } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import type { Caller } from '../../auth/index.js';
import { Access, type Answer, Answers, Operation, QuerySchema } from '../../http/index.js';
import { parseAmount, type Unit } from '../../ledger/index.js';
import { budgetKey, orStoreError, Records, RedisService, tenantKey, USUAL_MARKS } from '../../redis/index.js';
import { queryOf } from '../../wire/index.js';
import { BudgetLookupQueryDto } from './budget.dto.js';
import { budgetRefusal, ownedScope } from './budget.js';

@Controller('ops/budgets/thresholds')
export class BudgetThresholdsController {
  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
  ) {}

  @Get()
  @Access({ plane: 'admin', admin: true, confinement: { scopeAt: 'query.scope' } })
  @Operation('getBudgetThresholds', 'Get the shares and amounts whose crossing by a budget is an event')
  @Answers(200, 'BudgetThresholds')
  @QuerySchema(BudgetLookupQueryDto, { scope: 'tenant:acme', unit: 'TOKENS' })
  async read(@Req() request: FastifyRequest): Promise<Answer<'BudgetThresholds'>> {
    const { scope: text, unit } = queryOf(request, BudgetLookupQueryDto);
    const { scope, tenantId } = ownedScope(request.caller as Caller, text);
    const tag = this.records.tagOfTenant(tenantId);
    const found = await this.redis.scripts.call(
      'get_budget',
      { budget: budgetKey(tag, unit, scope) },
      { scope },
    );
    if (found.status !== 'FOUND') {
      throw budgetRefusal(found.status, scope, unit);
    }
    const marks = await orStoreError(this.redis.client.hget(tenantKey(tag, tenantId), 'th'));
    return {
      scope,
      unit,
      ...thresholdsOf(marks?.split(',') ?? USUAL_MARKS.map(String), unit),
    };
  }
}

function thresholdsOf(
  all: readonly string[],
  unit: Unit,
): { thresholds: number[]; threshold_amounts: bigint[] } {
  return {
    thresholds: all.map(Number).filter((mark) => mark > 0),
    threshold_amounts: all
      .filter((mark) => mark.startsWith(`${unit}:`))
      .map((mark) => BigInt(parseAmount(mark.slice(unit.length + 1)))),
  };
}
