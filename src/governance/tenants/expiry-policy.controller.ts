import { Body, Controller, Param, Put, Req, Res } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Access } from '../../auth/index.js';
import { Answers, BodySchema, compileValidator, sendJson, stringifyJson } from '../../http/index.js';
import { originOf } from '../origin.js';
import { ExpiryPolicyDto } from './tenant.dto.js';
import { TenantsService } from './tenants.service.js';

const validate = compileValidator(ExpiryPolicyDto);

/** The protocol sets a tenant's expiry policy at its creation only: the body of its updateTenant refuses the field. */
@ApiTags('Operations')
@Controller('ops/tenants/:tenant_id/expiry-policy')
export class ExpiryPolicyController {
  constructor(private readonly service: TenantsService) {}

  @Put()
  @Access({ plane: 'admin', admin: true })
  @ApiOperation({
    operationId: 'setExpiryPolicy',
    summary: "Change a tenant's expiry policy for the reservations that follow",
  })
  @Answers(200, 'Tenant')
  @BodySchema(ExpiryPolicyDto)
  async set(
    @Param('tenant_id') tenantId: string,
    @Req() request: FastifyRequest,
    @Body() body: unknown,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const { tenant } = await this.service.update(tenantId, validate(body), originOf(request, 'admin'));
    sendJson(reply, 200, stringifyJson(tenant));
  }
}
