import { Controller, Delete, Get, Param, Patch, Post, Put, Req, Res } from '@nestjs/common';
import { ApiOperation } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Caller } from '../../auth/index.js';
import {
  Access,
  Answers,
  BodySchema,
  LimitedChange,
  LimitedQuery,
  OF_POLICY,
  originOf,
  QuerySchema,
  sendAnswer,
  sendJson,
} from '../../http/index.js';
import { compileQuery, compileValidator, stringifyJson } from '../../wire/index.js';
import { ChargeOnExpiryDto } from '../charge-on-expiry.dto.js';
import { PoliciesService } from './policies.service.js';
import { PolicyCreateDto, PolicyListQueryDto, PolicyUpdateDto } from './policy.dto.js';

const validateCreate = compileValidator(PolicyCreateDto);
const validateUpdate = compileValidator(PolicyUpdateDto);
const validateList = compileQuery(PolicyListQueryDto);

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
  @ApiOperation({ operationId: 'createPolicy', summary: "Create a policy for some of a tenant's scopes" })
  @Answers(201, 'Policy')
  @BodySchema(PolicyCreateDto, {
    tenant_id: 'acme',
    name: 'Short answers',
    scope_pattern: 'tenant:acme/*',
    caps: { max_tokens: 4_096 },
  })
  async create(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    sendJson(
      reply,
      201,
      stringifyJson(
        await this.policies.create(
          request.caller as Caller,
          validateCreate(request.body),
          originOf(request, 'admin_on_behalf_of'),
        ),
      ),
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
  @ApiOperation({ operationId: 'listPolicies', summary: 'List policies' })
  @Answers(200, 'PolicyListResponse')
  @QuerySchema(PolicyListQueryDto, { tenant_id: 'acme' })
  async list(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    const { rows, ...rest } = await this.policies.list(request.caller as Caller, validateList(request.query));
    sendAnswer<'PolicyListResponse'>(reply, 200, { policies: rows, ...rest });
  }

  @Patch(':policy_id')
  @Access({ plane: 'admin', tenant: 'policies:write', admin: true, confinement: OF_POLICY })
  @LimitedChange()
  @ApiOperation({ operationId: 'updatePolicy', summary: 'Update policy properties' })
  @Answers(200, 'Policy')
  @BodySchema(PolicyUpdateDto, { priority: 10 })
  async update(
    @Param('policy_id') policyId: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const policy = await this.policies.update(
      request.caller as Caller,
      policyId,
      validateUpdate(request.body),
      originOf(request, 'admin_on_behalf_of'),
    );
    sendAnswer<'Policy'>(reply, 200, policy);
  }
}

const validateCharge = compileValidator(ChargeOnExpiryDto);

/** The default of X-Holdfast-Charge-On-Expiry for the reservations that a policy governs. */
@Controller('ops/policies/:policy_id/charge-on-expiry')
export class PolicyChargeController {
  constructor(private readonly policies: PoliciesService) {}

  @Get()
  @Access({ plane: 'admin', admin: true, confinement: OF_POLICY })
  @ApiOperation({
    operationId: 'getPolicyChargeOnExpiry',
    summary: 'Get what share of its estimate a reservation under a policy costs if it expires',
  })
  @Answers(200, 'PolicyChargeOnExpiry')
  async get(@Param('policy_id') policyId: string, @Res() reply: FastifyReply): Promise<void> {
    sendAnswer<'PolicyChargeOnExpiry'>(reply, 200, await this.policies.chargeOnExpiry(policyId));
  }

  @Put()
  @Access({ plane: 'admin', admin: true, confinement: OF_POLICY })
  @ApiOperation({
    operationId: 'setPolicyChargeOnExpiry',
    summary: 'Change what share of its estimate a new reservation under a policy costs if it expires',
  })
  @Answers(200, 'PolicyChargeOnExpiry')
  @BodySchema(ChargeOnExpiryDto, { percent: 100 })
  async set(
    @Param('policy_id') policyId: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const { percent } = validateCharge(request.body);
    const charge = await this.policies.setChargeOnExpiry(policyId, percent, originOf(request));
    sendAnswer<'PolicyChargeOnExpiry'>(reply, 200, charge);
  }

  @Delete()
  @Access({ plane: 'admin', admin: true, confinement: OF_POLICY })
  @ApiOperation({
    operationId: 'removePolicyChargeOnExpiry',
    summary: "Leave it to a policy's tenant what a reservation costs if it expires",
  })
  @Answers(200, 'PolicyChargeOnExpiry')
  async remove(
    @Param('policy_id') policyId: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const charge = await this.policies.setChargeOnExpiry(policyId, undefined, originOf(request));
    sendAnswer<'PolicyChargeOnExpiry'>(reply, 200, charge);
  }
}
