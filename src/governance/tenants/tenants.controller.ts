import { Controller, Get, Param, Patch, Post, Put, Req, Res } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import {
  Access,
  type Answer,
  Answers,
  BodySchema,
  LimitedQuery,
  Operation,
  OperationAccess,
  originOf,
  QuerySchema,
  sendAnswer,
  tenantsOf,
} from '../../http/index.js';
import { bodyOf, queryOf } from '../../wire/index.js';
import { CHARGE_FIELD, ChargeOnExpiryDto } from '../charge-on-expiry.dto.js';
import { TenantBulkActionService } from './tenant-bulk-action.service.js';
import {
  ExpiryPolicyDto,
  TenantBulkActionDto,
  TenantCreateDto,
  TenantListQueryDto,
  TenantUpdateDto,
} from './tenant.dto.js';
import { TenantsService } from './tenants.service.js';

@Controller('v1/admin/tenants')
export class TenantsController {
  constructor(
    private readonly service: TenantsService,
    private readonly bulk: TenantBulkActionService,
    private readonly access: OperationAccess,
  ) {}

  @Post()
  @Access({ plane: 'admin', admin: true, confinement: { tenantAt: 'body.tenant_id' } })
  @Operation('createTenant', 'Create a new tenant')
  @Answers(200, 'Tenant')
  @Answers(201, 'Tenant')
  @BodySchema(TenantCreateDto, { tenant_id: 'acme', name: 'Acme Inc.' })
  async create(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    const { created, tenant } = await this.service.create(
      bodyOf(request, TenantCreateDto),
      originOf(request),
    );
    sendAnswer<'Tenant'>(reply, created ? 201 : 200, tenant);
  }

  @Get()
  @Access({ plane: 'admin', admin: true, confinement: 'filtered' })
  @LimitedQuery()
  @Operation('listTenants', 'List all tenants')
  @Answers(200, 'TenantListResponse')
  @QuerySchema(TenantListQueryDto)
  async list(@Req() request: FastifyRequest): Promise<Answer<'TenantListResponse'>> {
    const { rows, ...rest } = await this.service.list(
      queryOf(request, TenantListQueryDto),
      tenantsOf(request),
    );
    return { tenants: rows, ...rest };
  }

  @Post('bulk-action')
  @Access({ plane: 'admin', admin: true })
  @LimitedQuery()
  @Operation('bulkActionTenants', 'Suspend, reactivate or close all tenants that match a filter')
  @Answers(200, 'TenantBulkActionResponse')
  @BodySchema(TenantBulkActionDto, {
    filter: { search: 'acme' },
    action: 'REACTIVATE',
    expected_count: 1,
    idempotency_key: 'reactivate-acme-1',
  })
  bulkAction(@Req() request: FastifyRequest): Promise<string> {
    const action = bodyOf(request, TenantBulkActionDto);
    if (action.action === 'CLOSE') {
      this.access.requireRole(request.caller, 'admin');
    }
    return this.bulk.apply(action, originOf(request));
  }

  @Get(':tenant_id')
  @Access({ plane: 'admin', admin: true, confinement: { tenantAt: 'params.tenant_id' } })
  @Operation('getTenant', 'Get tenant details')
  @Answers(200, 'Tenant')
  get(@Param('tenant_id') tenantId: string): Promise<Answer<'Tenant'>> {
    return this.service.get(tenantId);
  }

  @Patch(':tenant_id')
  @Access({ plane: 'admin', admin: true, confinement: { tenantAt: 'params.tenant_id' } })
  @Operation('updateTenant', 'Update tenant properties')
  @Answers(200, 'Tenant')
  @BodySchema(TenantUpdateDto, { default_reservation_ttl_ms: 120_000 })
  async update(
    @Param('tenant_id') tenantId: string,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    const changes = bodyOf(request, TenantUpdateDto);
    if (changes.status === 'CLOSED') {
      this.access.requireRole(request.caller, 'admin');
    }
    const { tenant, complete } = await this.service.update(tenantId, changes, originOf(request));
    if (!complete) {
      reply.header('X-Cycles-Cascade-Status', 'in_progress').header('Retry-After', '1');
    }
    sendAnswer<'Tenant'>(reply, 200, tenant);
  }
}

/** The protocol sets a tenant's expiry policy only at creation; the body of its updateTenant does not allow the field. */
@Controller('ops/tenants/:tenant_id/expiry-policy')
export class ExpiryPolicyController {
  constructor(private readonly service: TenantsService) {}

  @Put()
  @Access({ plane: 'admin', admin: true, confinement: { tenantAt: 'params.tenant_id' } })
  @Operation('setExpiryPolicy', "Change a tenant's expiry policy for new reservations")
  @Answers(200, 'Tenant')
  @BodySchema(ExpiryPolicyDto, { reservation_expiry_policy: 'MANUAL_CLEANUP' })
  async set(@Param('tenant_id') tenantId: string, @Req() request: FastifyRequest): Promise<Answer<'Tenant'>> {
    const { tenant } = await this.service.update(
      tenantId,
      bodyOf(request, ExpiryPolicyDto),
      originOf(request),
    );
    return tenant;
  }
}

/** The default of X-Holdfast-Charge-On-Expiry for a tenant's reservations. */
@Controller('ops/tenants/:tenant_id/charge-on-expiry')
export class TenantChargeController {
  constructor(private readonly service: TenantsService) {}

  @Get()
  @Access({ plane: 'admin', admin: true, confinement: { tenantAt: 'params.tenant_id' } })
  @Operation(
    'getTenantChargeOnExpiry',
    "Get what share of its estimate a tenant's reservation costs if it expires",
  )
  @Answers(200, 'TenantChargeOnExpiry')
  get(@Param('tenant_id') tenantId: string): Promise<Answer<'TenantChargeOnExpiry'>> {
    return this.service.chargeOnExpiry(tenantId);
  }

  @Put()
  @Access({ plane: 'admin', admin: true, confinement: { tenantAt: 'params.tenant_id' } })
  @Operation(
    'setTenantChargeOnExpiry',
    "Change what share of its estimate a tenant's new reservation costs if it expires",
  )
  @Answers(200, 'TenantChargeOnExpiry')
  @BodySchema(ChargeOnExpiryDto, { percent: 100 })
  async set(
    @Param('tenant_id') tenantId: string,
    @Req() request: FastifyRequest,
  ): Promise<Answer<'TenantChargeOnExpiry'>> {
    const { percent } = bodyOf(request, ChargeOnExpiryDto);
    await this.service.update(tenantId, { [CHARGE_FIELD]: percent }, originOf(request));
    return { tenant_id: tenantId, percent };
  }
}
