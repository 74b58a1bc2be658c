import { Controller, Delete, Get, Param, Patch, Post, Put, Req } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import type { Caller } from '../../auth/index.js';
import {
  Access,
  type Answer,
  Answers,
  BodySchema,
  LimitedChange,
  LimitedQuery,
  OF_POLICY,
  Operation,
  originOf,
  QuerySchema,
} from '../../http/index.js';
import { bodyOf, queryOf } from '../../wire/index.js';
import { ChargeOnExpiryDto } from '../charge-on-expiry.dto.js';
import { PoliciesService } from './policies.service.js';
import { PolicyCreateDto, PolicyListQueryDto, PolicyUpdateDto } from './policy.dto.js';

@Controller('v1/admin/policies')
export class PoliciesController {
  constructor(private readonly policies: PoliciesService) {}

  @Post()
  @Access({
    plane: 'admin',
    tenant: 'policies:write',
    admin: true,
    confinement: { tenantAt: 'body.tenant_id' },
  })
  @LimitedChange()
  @Operation('createPolicy', "Create a policy for some of a tenant's scopes")
  @Answers(201, 'Policy')
  @BodySchema(PolicyCreateDto, {
    tenant_id: 'acme',
    name: 'Short answers',
    scope_pattern: 'tenant:acme/*',
    caps: { max_tokens: 4_096 },
  })
  create(@Req() request: FastifyRequest): Promise<Answer<'Policy'>> {
    return this.policies.create(
      request.caller as Caller,
      bodyOf(request, PolicyCreateDto),
      originOf(request, 'admin_on_behalf_of'),
    );
  }

  @Get()
  @Access({
    plane: 'admin',
    tenant: 'policies:read',
    admin: true,
    confinement: { tenantAt: 'query.tenant_id' },
  })
  @LimitedQuery()
  @Operation('listPolicies', 'List policies')
  @Answers(200, 'PolicyListResponse')
  @QuerySchema(PolicyListQueryDto, { tenant_id: 'acme' })
  async list(@Req() request: FastifyRequest): Promise<Answer<'PolicyListResponse'>> {
    const { rows, ...rest } = await this.policies.list(
      request.caller as Caller,
      queryOf(request, PolicyListQueryDto),
    );
    return { policies: rows, ...rest };
  }

  @Patch(':policy_id')
  @Access({ plane: 'admin', tenant: 'policies:write', admin: true, confinement: OF_POLICY })
  @LimitedChange()
  @Operation('updatePolicy', 'Update policy properties')
  @Answers(200, 'Policy')
  @BodySchema(PolicyUpdateDto, { priority: 10 })
  update(@Param('policy_id') policyId: string, @Req() request: FastifyRequest): Promise<Answer<'Policy'>> {
    return this.policies.update(
      request.caller as Caller,
      policyId,
      bodyOf(request, PolicyUpdateDto),
      originOf(request, 'admin_on_behalf_of'),
    );
  }
}

/** The default of X-Holdfast-Charge-On-Expiry for the reservations that a policy governs. */
@Controller('ops/policies/:policy_id/charge-on-expiry')
export class PolicyChargeController {
  constructor(private readonly policies: PoliciesService) {}

  @Get()
  @Access({ plane: 'admin', admin: true, confinement: OF_POLICY })
  @Operation(
    'getPolicyChargeOnExpiry',
    'Get what share of its estimate a reservation under a policy costs if it expires',
  )
  @Answers(200, 'PolicyChargeOnExpiry')
  get(@Param('policy_id') policyId: string): Promise<Answer<'PolicyChargeOnExpiry'>> {
    return this.policies.chargeOnExpiry(policyId);
  }

  @Put()
  @Access({ plane: 'admin', admin: true, confinement: OF_POLICY })
  @Operation(
    'setPolicyChargeOnExpiry',
    'Change what share of its estimate a new reservation under a policy costs if it expires',
  )
  @Answers(200, 'PolicyChargeOnExpiry')
  @BodySchema(ChargeOnExpiryDto, { percent: 100 })
  set(
    @Param('policy_id') policyId: string,
    @Req() request: FastifyRequest,
  ): Promise<Answer<'PolicyChargeOnExpiry'>> {
    const { percent } = bodyOf(request, ChargeOnExpiryDto);
    return this.policies.setChargeOnExpiry(policyId, percent, originOf(request));
  }

  @Delete()
  @Access({ plane: 'admin', admin: true, confinement: OF_POLICY })
  @Operation(
    'removePolicyChargeOnExpiry',
    "Leave it to a policy's tenant what a reservation costs if it expires",
  )
  @Answers(200, 'PolicyChargeOnExpiry')
  remove(
    @Param('policy_id') policyId: string,
    @Req() request: FastifyRequest,
  ): Promise<Answer<'PolicyChargeOnExpiry'>> {
    return this.policies.setChargeOnExpiry(policyId, undefined, originOf(request));
  }
}
