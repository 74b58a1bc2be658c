import { Controller, Get, Req } from '@nestjs/common';
import type { FastifyRequest } from 'fastify';
import {
  Access,
  type Answer,
  Answers,
  LimitedQuery,
  Operation,
  QuerySchema,
  tenantsOf,
} from '../../http/index.js';
import { queryOf } from '../../wire/index.js';
import { AuditLogQueryDto, RequestLogQueryDto } from './audit-log.dto.js';
import { AuditLogService } from './audit-log.service.js';

@Controller()
export class AuditLogController {
  constructor(private readonly service: AuditLogService) {}

  @Get('v1/admin/audit/logs')
  @Access({ plane: 'admin', admin: true, confinement: { filteredAt: 'query.tenant_id' } })
  @LimitedQuery()
  @Operation('listAuditLogs', 'Query audit logs')
  @Answers(200, 'AuditLogListResponse')
  @QuerySchema(AuditLogQueryDto, { tenant_id: 'acme' })
  async list(@Req() request: FastifyRequest): Promise<Answer<'AuditLogListResponse'>> {
    const { rows, ...rest } = await this.service.list(queryOf(request, AuditLogQueryDto), tenantsOf(request));
    return { logs: rows, ...rest };
  }

  @Get('ops/requests')
  @Access({ plane: 'admin', admin: true, confinement: { filteredAt: 'query.tenant_id' } })
  @LimitedQuery()
  @Operation('listRefusedRequests', 'List the last refused requests: the request log')
  @Answers(200, 'RefusedRequestListResponse')
  @QuerySchema(RequestLogQueryDto, { tenant_id: 'acme' })
  async listRefused(@Req() request: FastifyRequest): Promise<Answer<'RefusedRequestListResponse'>> {
    const { rows, ...rest } = await this.service.listRefused(
      queryOf(request, RequestLogQueryDto),
      tenantsOf(request),
    );
    return { requests: rows, ...rest };
  }
}
