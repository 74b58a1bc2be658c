import { Body, Controller, Delete, Get, Param, Put, Req, Res } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Access } from '../auth/index.js';
import { originOf } from '../governance/index.js';
import { Answers, BodySchema, compileValidator, sendJson, stringifyJson } from '../http/index.js';
import { TenantLimitsDto } from './limits.dto.js';
import { LimitsService } from './limits.service.js';

const validate = compileValidator(TenantLimitsDto);

@ApiTags('Operations')
@Controller('ops/tenants/:tenant_id/limits')
export class LimitsController {
  constructor(private readonly service: LimitsService) {}

  @Get()
  @Access({ plane: 'admin', admin: true })
  @ApiOperation({ operationId: 'getTenantLimits', summary: 'What a tenant owns, and what it may own' })
  @Answers(200, 'TenantLimits')
  async get(@Param('tenant_id') tenantId: string, @Res() reply: FastifyReply): Promise<void> {
    sendJson(reply, 200, stringifyJson(await this.service.read(tenantId)));
  }

  @Put()
  @Access({ plane: 'admin', admin: true })
  @ApiOperation({
    operationId: 'replaceTenantLimits',
    summary: "Give a tenant limits of its own; those left out are the deployment's",
  })
  @Answers(200, 'TenantLimits')
  @BodySchema(TenantLimitsDto)
  async replace(
    @Param('tenant_id') tenantId: string,
    @Req() request: FastifyRequest,
    @Body() body: unknown,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const limits = await this.service.replace(
      tenantId,
      validate(body),
      'replaceTenantLimits',
      originOf(request, 'admin'),
    );
    sendJson(reply, 200, stringifyJson(limits));
  }

  @Delete()
  @Access({ plane: 'admin', admin: true })
  @ApiOperation({ operationId: 'removeTenantLimits', summary: "Take away all limits of a tenant's own" })
  @Answers(200, 'TenantLimits')
  async remove(
    @Param('tenant_id') tenantId: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const limits = await this.service.replace(tenantId, {}, 'removeTenantLimits', originOf(request, 'admin'));
    sendJson(reply, 200, stringifyJson(limits));
  }
}
