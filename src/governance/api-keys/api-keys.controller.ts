import { Controller, Delete, Get, Param, Patch, Post, Req, Res } from '@nestjs/common';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { DEFAULT_PERMISSIONS, permissionList } from '../../auth/index.js';
import {
  Access,
  type Answer,
  Answers,
  BodySchema,
  LimitedChange,
  LimitedQuery,
  OF_API_KEY,
  Operation,
  originOf,
  QuerySchema,
  sendSecret,
  tenantsOf,
} from '../../http/index.js';
import { bodyOf, queryOf } from '../../wire/index.js';
import { ApiKeyCreateDto, ApiKeyListQueryDto, ApiKeyRevokeQueryDto, ApiKeyUpdateDto } from './api-key.dto.js';
import { ApiKeysService } from './api-keys.service.js';

@Controller('v1/admin/api-keys')
export class ApiKeysController {
  constructor(private readonly service: ApiKeysService) {}

  @Post()
  @Access({ plane: 'admin', admin: true, confinement: { tenantAt: 'body.tenant_id' } })
  @LimitedChange()
  @Operation(
    'createApiKey',
    'Create an API key for a tenant',
    `Without \`permissions\` the key has ${DEFAULT_PERMISSIONS.join(', ')}. All permissions:\n\n${permissionList()}`,
  )
  @Answers(201, 'ApiKeyCreateResponse')
  @BodySchema(ApiKeyCreateDto, {
    tenant_id: 'acme',
    name: 'backend',
    permissions: [
      ...DEFAULT_PERMISSIONS,
      'webhooks:read',
      'webhooks:write',
      'events:read',
      'usage:read',
      'refunds:create',
    ],
  })
  async create(@Req() request: FastifyRequest, @Res() reply: FastifyReply): Promise<void> {
    sendSecret<'ApiKeyCreateResponse'>(
      reply,
      201,
      await this.service.create(bodyOf(request, ApiKeyCreateDto), originOf(request)),
    );
  }

  @Get()
  @Access({ plane: 'admin', admin: true, confinement: { filteredAt: 'query.tenant_id' } })
  @LimitedQuery()
  @Operation('listApiKeys', 'List API keys')
  @Answers(200, 'ApiKeyListResponse')
  @QuerySchema(ApiKeyListQueryDto, { tenant_id: 'acme' })
  async list(@Req() request: FastifyRequest): Promise<Answer<'ApiKeyListResponse'>> {
    const { rows, ...rest } = await this.service.list(
      queryOf(request, ApiKeyListQueryDto),
      tenantsOf(request),
    );
    return { keys: rows, ...rest };
  }

  @Patch(':key_id')
  @Access({ plane: 'admin', admin: true, confinement: OF_API_KEY })
  @LimitedChange()
  @Operation('updateApiKey', 'Update API key properties')
  @Answers(200, 'ApiKey')
  @BodySchema(ApiKeyUpdateDto, {
    name: 'backend, read only',
    permissions: ['balances:read', 'reservations:list'],
  })
  update(@Req() request: FastifyRequest, @Param('key_id') keyId: string): Promise<Answer<'ApiKey'>> {
    return this.service.update(keyId, bodyOf(request, ApiKeyUpdateDto), originOf(request));
  }

  @Delete(':key_id')
  @Access({ plane: 'admin', admin: true, confinement: OF_API_KEY })
  @LimitedChange()
  @Operation('revokeApiKey', 'Revoke an API key')
  @Answers(200, 'ApiKey')
  @QuerySchema(ApiKeyRevokeQueryDto, { reason: 'Rotated' })
  revoke(@Req() request: FastifyRequest, @Param('key_id') keyId: string): Promise<Answer<'ApiKey'>> {
    const { reason } = queryOf(request, ApiKeyRevokeQueryDto);
    return this.service.revoke(keyId, reason, originOf(request));
  }
}
