import { fieldOf, optionalText, optionalTime, timeOf, type Fields } from '../listing/index.js';
import type { ApiKeyStatus } from './api-key.dto.js';

/** ApiKey of cycles-governance-admin-v0.1.25. Neither the secret nor its hash is part of it. */
export interface ApiKey {
  readonly key_id: string;
  readonly tenant_id: string;
  readonly key_prefix: string;
  readonly name: string;
  readonly description?: string;
  readonly permissions: readonly string[];
  readonly scope_filter: readonly string[];
  readonly status: ApiKeyStatus;
  readonly created_at: string;
  readonly expires_at: string;
  readonly revoked_at?: string;
  readonly revoked_reason?: string;
  readonly metadata?: Record<string, unknown>;
}

function statusOf(fields: Fields, nowMs: number): ApiKeyStatus {
  const status = fieldOf(fields, 'status');
  if (status !== 'ACTIVE' && status !== 'REVOKED') {
    throw new Error(`corrupt API key record: its status is ${status}`);
  }
  return status === 'ACTIVE' && Number(fieldOf(fields, 'expires_at')) <= nowMs ? 'EXPIRED' : status;
}

/** The members that a list reads for the rows that it shows. @throws Error when Holdfast did not write the record so. */
export function apiKeyTexts(fields: Fields): Pick<ApiKey, 'description' | 'metadata'> {
  const metadata = fields.get('metadata');
  return {
    ...optionalText(fields, 'description'),
    ...(metadata === undefined ? {} : { metadata: JSON.parse(metadata) as Record<string, unknown> }),
  };
}

/** `nowMs` is Redis' clock; a revoked key is never EXPIRED. @throws Error when Holdfast did not write the record so. */
export function apiKeyOf(fields: Fields, nowMs: number): ApiKey {
  return {
    key_id: fieldOf(fields, 'key_id'),
    tenant_id: fieldOf(fields, 'tenant_id'),
    key_prefix: fieldOf(fields, 'key_prefix'),
    name: fieldOf(fields, 'name'),
    ...apiKeyTexts(fields),
    permissions: JSON.parse(fieldOf(fields, 'permissions')) as string[],
    scope_filter: JSON.parse(fieldOf(fields, 'scope_filter')) as string[],
    status: statusOf(fields, nowMs),
    created_at: timeOf(fieldOf(fields, 'created_at')),
    expires_at: timeOf(fieldOf(fields, 'expires_at')),
    ...optionalTime(fields, 'revoked_at'),
    ...optionalText(fields, 'revoked_reason'),
  };
}
