import { Body, Controller, Get, Param, Post, Query, Req, Res } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Access } from '../../auth/index.js';
import { BodySchema, compileQuery, compileValidator, QuerySchema, sendJson, stringifyJson } from '../../http/index.js';
import { originOf } from '../origin.js';
import { TenantCreateDto, TenantListQueryDto } from './tenant.dto.js';
import { TenantsService } from './tenants.service.js';

const validateCreate = compileValidator(TenantCreateDto);
const validateList = compileQuery(TenantListQueryDto);

@ApiTags('Tenants')
@Controller('v1/admin/tenants')
export class TenantsController {
  constructor(private readonly service: TenantsService) {}

  @Post()
  @Access({ plane: 'admin', admin: true })
  @ApiOperation({ operationId: 'createTenant', summary: 'Create a new tenant' })
  @BodySchema(TenantCreateDto)
  async create(@Req() request: FastifyRequest, @Body() body: unknown, @Res() reply: FastifyReply): Promise<void> {
    const { created, tenant } = await this.service.create(validateCreate(body), originOf(request, 'admin'));
    sendJson(reply, created ? 201 : 200, stringifyJson(tenant));
  }

  @Get()
  @Access({ plane: 'admin', admin: true })
  @ApiOperation({ operationId: 'listTenants', summary: 'List all tenants' })
  @QuerySchema(TenantListQueryDto)
  async list(@Query() query: unknown, @Res() reply: FastifyReply): Promise<void> {
    const { rows, ...rest } = await this.service.list(validateList(query));
    sendJson(reply, 200, stringifyJson({ tenants: rows, ...rest }));
  }

  @Get(':tenant_id')
  @Access({ plane: 'admin', admin: true })
  @ApiOperation({ operationId: 'getTenant', summary: 'Get tenant details' })
  async get(@Param('tenant_id') tenantId: string, @Res() reply: FastifyReply): Promise<void> {
    sendJson(reply, 200, stringifyJson(await this.service.get(tenantId)));
  }
}
