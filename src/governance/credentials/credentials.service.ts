import { Injectable } from '@nestjs/common';
import type { Answer } from '../../answers/index.js';
import {
  type Caller,
  hashOfSecret,
  includesRole,
  type OperatorRole,
  type Permission,
} from '../../auth/index.js';
import { apiKeyHashKey, RedisService, tagOfKeySecret, tagOfPartition } from '../../redis/index.js';
import { type Origin, readTexts, timeOf } from '../../wire/index.js';

const RUNTIME: readonly Permission[] = [
  'reservations:create',
  'reservations:commit',
  'reservations:release',
  'reservations:extend',
];

/**
 * The permissions that grant an API key each capability: CAPABILITY DERIVATION of AuthIntrospectResponse in
 * cycles-governance-admin-v0.1.25. No permission grants an API key the capabilities of operators, which have an empty list.
 */
const GRANTED_BY = {
  view_overview: [],
  view_budgets: ['budgets:read', 'admin:read', 'admin:budgets:read'],
  view_events: ['events:read', 'admin:read', 'admin:events:read'],
  view_webhooks: ['webhooks:read', 'admin:read', 'admin:webhooks:read'],
  view_audit: [],
  view_tenants: [],
  view_api_keys: [],
  view_policies: ['policies:read', 'admin:read', 'admin:policies:read'],
  view_reservations: ['reservations:list', ...RUNTIME, 'admin:read'],
  manage_budgets: ['budgets:write', 'admin:write', 'admin:budgets:write'],
  manage_policies: ['policies:write', 'admin:write', 'admin:policies:write'],
  manage_webhooks: ['webhooks:write', 'admin:write', 'admin:webhooks:write'],
  manage_tenants: [],
  manage_api_keys: [],
  manage_reservations: [...RUNTIME, 'admin:write'],
} as const satisfies Record<string, readonly Permission[]>;

export type Capabilities = Readonly<Record<keyof typeof GRANTED_BY, boolean>>;

function deriveCapabilities(isGranted: (grantedBy: readonly Permission[]) => boolean): Capabilities {
  return Object.fromEntries(
    Object.entries(GRANTED_BY).map(([name, grantedBy]) => [name, isGranted(grantedBy)]),
  ) as Capabilities;
}

/** Of an operator: views for every role that reads, and the rest for roles that change. */
export function operatorCapabilities(role: OperatorRole): Capabilities {
  return Object.fromEntries(
    Object.keys(GRANTED_BY).map((name) => [
      name,
      includesRole(role, name.startsWith('view_') ? 'viewer' : 'operator'),
    ]),
  ) as Capabilities;
}

export function capabilitiesOf(permissions: ReadonlySet<string>): Capabilities {
  return deriveCapabilities((grantedBy) => grantedBy.some((permission) => permissions.has(permission)));
}

/** AuthIntrospectResponse of cycles-governance-admin-v0.1.25. */
export type Introspection = Answer<'AuthIntrospectResponse'>;

/** ApiKeyValidationResponse of cycles-governance-admin-v0.1.25. The tenant of an unknown secret is the empty string. */
export type Validation = Answer<'ApiKeyValidationResponse'>;

@Injectable()
export class CredentialsService {
  constructor(private readonly redis: RedisService) {}

  introspect(caller: Caller): Introspection {
    if (caller.kind === 'admin') {
      return {
        authenticated: true,
        auth_type: 'admin',
        permissions: caller.role === 'viewer' ? ['admin:read'] : ['*'],
        capabilities: {
          ...operatorCapabilities(caller.role),
          // It is of the whole deployment.
          ...(caller.tenants !== undefined && { view_overview: false }),
        },
      };
    }
    return {
      authenticated: true,
      auth_type: 'tenant',
      permissions: [...caller.permissions],
      capabilities: capabilitiesOf(caller.permissions),
      tenant_id: caller.tenantId,
      ...(caller.scopeFilter.length === 0 ? {} : { scope_filter: caller.scopeFilter }),
    };
  }

  /**
   * Asks Redis, not the cache of this process. An invalid secret is a normal result, not an error; the script also records an event.
   * @throws StoreUnavailable
   */
  async validate(secret: string, origin: Origin): Promise<Validation> {
    const tag = tagOfKeySecret(secret, this.redis.partitions);
    const reply = await this.redis.scripts.call(
      'validate_api_key',
      // A malformed secret names no partition; its event goes to the first one.
      { secretHash: apiKeyHashKey(tag ?? tagOfPartition(0), hashOfSecret(secret)) },
      { malformed: tag === undefined ? '1' : '0', ...origin },
    );
    if (reply.status === 'VALID') {
      return {
        valid: true,
        tenant_id: reply.tenantId,
        key_id: reply.keyId,
        permissions: readTexts(reply.permissions, 'permissions of an API key'),
        scope_filter: readTexts(reply.scopeFilter, 'scope_filter of an API key'),
        expires_at: timeOf(reply.expiresAtMs.toString()),
      };
    }
    const { reason, tenantId = '', keyId } = reply;
    return { valid: false, tenant_id: tenantId, ...(keyId === undefined ? {} : { key_id: keyId }), reason };
  }
}
