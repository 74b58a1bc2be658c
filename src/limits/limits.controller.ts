import { Controller, Delete, Get, Param, Put, Req } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import { Access, type Answer, Answers, BodySchema, Operation, originOf } from '../http/index.js';
import { bodyOf } from '../wire/index.js';
import { LimitsService, TenantLimitsDto } from './limits.service.js';

@Controller('ops/tenants/:tenant_id/limits')
export class LimitsController {
  constructor(private readonly service: LimitsService) {}

  @Get()
  @Access({ plane: 'admin', admin: true, confinement: { tenantAt: 'params.tenant_id' } })
  @Operation('getTenantLimits', 'Get what a tenant owns and what it may own')
  @Answers(200, 'TenantLimits')
  get(@Param('tenant_id') tenantId: string): Promise<Answer<'TenantLimits'>> {
    return this.service.read(tenantId);
  }

  @Put()
  @Access({ plane: 'admin', admin: true, confinement: { tenantAt: 'params.tenant_id' } })
  @Operation(
    'replaceTenantLimits',
    "Replace a tenant's own limits; a missing one falls back to the deployment's",
  )
  @Answers(200, 'TenantLimits')
  @BodySchema(TenantLimitsDto, { live_reservations: 10_000 })
  replace(
    @Param('tenant_id') tenantId: string,
    @Req() request: FastifyRequest,
  ): Promise<Answer<'TenantLimits'>> {
    return this.service.replace(
      tenantId,
      bodyOf(request, TenantLimitsDto),
      'replaceTenantLimits',
      originOf(request),
    );
  }

  @Delete()
  @Access({ plane: 'admin', admin: true, confinement: { tenantAt: 'params.tenant_id' } })
  @Operation('removeTenantLimits', "Remove a tenant's own limits")
  @Answers(200, 'TenantLimits')
  remove(
    @Param('tenant_id') tenantId: string,
    @Req() request: FastifyRequest,
  ): Promise<Answer<'TenantLimits'>> {
    return this.service.replace(tenantId, {}, 'removeTenantLimits', originOf(request));
  }
}
