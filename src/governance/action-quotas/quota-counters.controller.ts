import { Controller, Get, Query, Req, Res } from '@nestjs/common';
import { ApiOperation } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Caller } from '../../auth/index.js';
import { Access, Answers, LimitedQuery, QuerySchema, sendJson } from '../../http/index.js';
import { compileQuery, stringifyJson } from '../../wire/index.js';
import { QuotaCounterListQueryDto } from './quota-counter.dto.js';
import { QuotaCountersService } from './quota-counters.service.js';

const validateList = compileQuery(QuotaCounterListQueryDto);

@Controller('v1/admin/action-quota-counters')
export class QuotaCountersController {
  constructor(private readonly counters: QuotaCountersService) {}

  @Get()
  @Access({ plane: 'admin', tenant: 'action_quotas:read', deprecated: 'balances:read', admin: true })
  @LimitedQuery()
  @ApiOperation({
    operationId: 'listActionQuotaCounters',
    summary: 'List what the quotas of actions have counted',
  })
  @Answers(200, 'ActionQuotaCounterListResponse', 'A page of counters')
  @QuerySchema(QuotaCounterListQueryDto, { tenant_id: 'acme' })
  async list(
    @Req() request: FastifyRequest,
    @Query() query: unknown,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const { rows, ...rest } = await this.counters.list(request.caller as Caller, validateList(query));
    sendJson(reply, 200, stringifyJson({ counters: rows, ...rest }));
  }
}
