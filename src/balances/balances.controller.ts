import { Controller, Get, Query, Req, Res } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Access, type TenantCaller } from '../auth/index.js';
import { Answers, compileQuery, QuerySchema, sendJson } from '../http/index.js';
import { LimitedQuery } from '../queries/index.js';
import { asksForLedgers, BalancesQueryDto } from './balances.dto.js';
import { BalancesService } from './balances.service.js';
import { LedgersService } from './ledgers.service.js';

const validate = compileQuery(BalancesQueryDto);

@ApiTags('Balances')
@Controller('v1/balances')
export class BalancesController {
  constructor(
    private readonly service: BalancesService,
    private readonly ledgers: LedgersService,
  ) {}

  @Get()
  @Access({ plane: 'runtime', tenant: 'balances:read' })
  @LimitedQuery()
  @ApiOperation({ operationId: 'getBalances', summary: 'Query current budget balances across scopes' })
  @Answers(
    200,
    'BalanceResponse',
    'Balances of a subject; with tenant_id, scope_prefix or unit each is a BudgetLedger, as in listBudgets',
  )
  @QuerySchema(BalancesQueryDto)
  async list(
    @Req() request: FastifyRequest,
    @Query() query: unknown,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const asked = validate(query);
    const service = asksForLedgers(asked) ? this.ledgers : this.service;
    sendJson(reply, 200, await service.list(request.caller as TenantCaller, asked));
  }
}
