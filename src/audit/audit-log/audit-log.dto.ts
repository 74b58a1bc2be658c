import { applyDecorators } from '@nestjs/common';
import { ArrayMaxSize, IsArray, IsBoolean, IsIn, IsString } from 'class-validator';
import {
  IsInt,
  ListQueryDto,
  Matches,
  MaxLength,
  Optional,
  WindowBound,
  WindowQueryDto,
} from '../../wire/index.js';

/** A comma-separated list. */
function Names(): PropertyDecorator {
  return applyDecorators(Optional(), IsArray(), ArrayMaxSize(25), IsString({ each: true }));
}

export const AUDIT_SORT_KEYS = [
  'timestamp',
  'operation',
  'resource_type',
  'tenant_id',
  'key_id',
  'status',
] as const;
export type AuditSortKey = (typeof AUDIT_SORT_KEYS)[number];

/** The query of listAuditLogs of cycles-governance-admin-v0.1.25. Lists are comma-separated. */
export class AuditLogQueryDto extends ListQueryDto {
  /** A tenant, or `__admin__` or `__unauth__`. */
  @Optional(IsString())
  tenant_id?: string;

  @Optional(IsString())
  key_id?: string;

  @Names()
  operation?: string[];

  @Names()
  resource_type?: string[];

  @Optional(IsString())
  resource_id?: string;

  @Names()
  error_code?: string[];

  @Names()
  error_code_exclude?: string[];

  @Optional(IsInt())
  status?: number;

  @Optional(IsInt({ min: 100, max: 599 }))
  status_min?: number;

  @Optional(IsInt({ min: 100, max: 599 }))
  status_max?: number;

  @WindowBound()
  from?: string;

  @WindowBound()
  to?: string;

  @Optional(Matches(/^[0-9a-f]{32}$/))
  trace_id?: string;

  @Optional(IsString())
  request_id?: string;

  /** Only what changed something: neither reads nor refusals. Not of the protocol. */
  @Optional(IsBoolean())
  changes_only?: boolean;

  @Optional(IsIn(AUDIT_SORT_KEYS))
  sort_by?: AuditSortKey;
}

/** The query of the request log, whose names mean what they mean for the audit log. */
export class RequestLogQueryDto extends WindowQueryDto {
  /** A tenant, or `__admin__` or `__unauth__`. */
  @Optional(IsString())
  tenant_id?: string;

  @Optional(IsString())
  key_id?: string;

  @Names()
  operation?: string[];

  @Names()
  error_code?: string[];

  @Optional(IsInt({ min: 400, max: 599 }))
  status?: number;

  /** The scope that refused, or one above it. */
  @Optional(MaxLength(1024))
  scope?: string;

  @Optional(IsString())
  resource_id?: string;

  @Optional(IsString())
  request_id?: string;

  @Optional(Matches(/^[0-9a-f]{32}$/))
  trace_id?: string;
}
