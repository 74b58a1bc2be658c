import { Controller, Get, Query, Req, Res } from '@nestjs/common';
import { ApiOperation } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Caller } from '../../auth/index.js';
import { Access, Answers, QuerySchema, sendJson } from '../../http/index.js';
import { parseAmount, type Unit } from '../../ledger/index.js';
import { Records, RedisService, tenantKey, toStoreError } from '../../redis/index.js';
import { compileQuery, stringifyJson } from '../../wire/index.js';
import { BudgetLookupQueryDto } from './budget.dto.js';
import { ownedScope } from './budget.js';

const validateLookup = compileQuery(BudgetLookupQueryDto);
/** What lua/lib/threshold.lua watches where nobody asks for others. */
const USUAL_MARKS = '0.8,0.95,1';

@Controller('ops/budgets/thresholds')
export class BudgetThresholdsController {
  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
  ) {}

  @Get()
  @Access({ plane: 'admin', admin: true, confinement: { scopeAt: 'query.scope' } })
  @ApiOperation({
    operationId: 'getBudgetThresholds',
    summary: 'Get the shares and amounts whose crossing by a budget is an event',
  })
  @Answers(200, 'BudgetThresholds')
  @QuerySchema(BudgetLookupQueryDto, { scope: 'tenant:acme', unit: 'TOKENS' })
  async read(
    @Req() request: FastifyRequest,
    @Query() query: unknown,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const { scope: text, unit } = validateLookup(query);
    const { scope, tenantId } = ownedScope(request.caller as Caller, text);
    const marks = await this.marksOf(tenantId);
    sendJson(reply, 200, stringifyJson({ scope, unit, ...thresholdsOf(marks, unit) }));
  }

  private async marksOf(tenantId: string): Promise<string> {
    try {
      const key = tenantKey(this.records.tagOfTenant(tenantId), tenantId);
      return (await this.redis.client.hget(key, 'th')) ?? USUAL_MARKS;
    } catch (error) {
      throw toStoreError(error);
    }
  }
}

function thresholdsOf(marks: string, unit: Unit): { thresholds: number[]; threshold_amounts: bigint[] } {
  const all = marks.split(',');
  return {
    thresholds: all.map(Number).filter((mark) => mark > 0),
    threshold_amounts: all
      .filter((mark) => mark.startsWith(`${unit}:`))
      .map((mark) => BigInt(parseAmount(mark.slice(unit.length + 1)))),
  };
}
