import { Controller, Get, Post, Req } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import type { Caller } from '../../auth/index.js';
import {
  Access,
  type Answer,
  Answers,
  BodySchema,
  LimitedQuery,
  Operation,
  originOf,
  QuerySchema,
} from '../../http/index.js';
import { invalidField } from '../../ledger/index.js';
import { bodyOf, queryOf } from '../../wire/index.js';
import { QuotaCounterListQueryDto, QuotaCounterResetDto } from './quota-counter.dto.js';
import { QuotaCountersService } from './quota-counters.service.js';

@Controller('v1/admin/action-quota-counters')
export class QuotaCountersController {
  constructor(private readonly counters: QuotaCountersService) {}

  @Get()
  @Access({
    plane: 'admin',
    tenant: 'action_quotas:read',
    deprecated: 'balances:read',
    admin: true,
    confinement: { tenantAt: 'query.tenant_id' },
  })
  @LimitedQuery()
  @Operation('listActionQuotaCounters', 'List what the quotas of actions have counted')
  @Answers(200, 'ActionQuotaCounterListResponse', 'A page of counters')
  @QuerySchema(QuotaCounterListQueryDto, { tenant_id: 'acme' })
  async list(@Req() request: FastifyRequest): Promise<Answer<'ActionQuotaCounterListResponse'>> {
    const { rows, ...rest } = await this.counters.list(
      request.caller as Caller,
      queryOf(request, QuotaCounterListQueryDto),
    );
    return { counters: rows, ...rest };
  }

  @Post('reset')
  @Access({ plane: 'admin', admin: true, confinement: { tenantAt: 'body.tenant_id' } })
  @Operation('resetActionQuotaCounter', 'Set a counter of actions to zero, after a mistake or a fault')
  @Answers(200, 'ActionQuotaCounterResetResponse', 'The counter after the reset')
  @BodySchema(QuotaCounterResetDto, {
    tenant_id: 'acme',
    scope: 'tenant:acme/app:support-chat',
    action_kind: 'llm.completion',
    window: 'per_run',
    window_key: 'run-4711',
    reason: 'The agent counted each call twice',
  })
  reset(@Req() request: FastifyRequest): Promise<Answer<'ActionQuotaCounterResetResponse'>> {
    requireTenant(request.body);
    return this.counters.reset(bodyOf(request, QuotaCounterResetDto), originOf(request));
  }
}

/** @throws Refusal INVALID_REQUEST in the words of ActionQuotaCounterResetRequest for a request that names no tenant. */
function requireTenant(body: unknown): void {
  if (typeof body === 'object' && body !== null && !('tenant_id' in body)) {
    throw invalidField('tenant_id', 'missing_required_field: tenant_id');
  }
}
