import { Injectable } from '@nestjs/common';
import { hashOfSecret, type Caller } from '../../auth/index.js';
import { apiKeyHashKey, partitionCode, RedisService, tagOf, tagOfKeySecret } from '../../redis/index.js';
import { timeOf } from '../listing/index.js';
import type { Origin } from '../origin.js';
import { capabilitiesOf, OPERATOR_CAPABILITIES, type Capabilities } from './capabilities.js';

/** AuthIntrospectResponse of cycles-governance-admin-v0.1.25. */
export interface Introspection {
  readonly authenticated: true;
  readonly auth_type: 'admin' | 'tenant';
  readonly permissions: readonly string[];
  readonly capabilities: Capabilities;
  readonly tenant_id?: string;
  readonly scope_filter?: readonly string[];
}

/** ApiKeyValidationResponse of cycles-governance-admin-v0.1.25. The tenant of a secret that is nobody's is the empty text. */
export interface Validation {
  readonly valid: boolean;
  readonly tenant_id: string;
  readonly key_id?: string;
  readonly permissions?: readonly string[];
  readonly scope_filter?: readonly string[];
  readonly expires_at?: string;
  readonly reason?: string;
}

@Injectable()
export class CredentialsService {
  constructor(private readonly redis: RedisService) {}

  introspect(caller: Caller): Introspection {
    if (caller.kind === 'admin') {
      return {
        authenticated: true,
        auth_type: 'admin',
        permissions: ['*'],
        capabilities: OPERATOR_CAPABILITIES,
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
   * Asks Redis, and no memory of this process. A secret that opens nothing is an answer, not an error, and an event.
   * @throws StoreUnavailable
   */
  async validate(secret: string, origin: Origin): Promise<Validation> {
    const tag = tagOfKeySecret(secret, this.redis.partitions);
    const [word, ...parts] = await this.redis.scripts.run(
      'validate_api_key',
      // A malformed secret names no partition; its event goes to the first one.
      [apiKeyHashKey(tag ?? tagOf(partitionCode(0)), hashOfSecret(secret))],
      [tag === undefined ? '1' : '0', ...origin],
    );
    if (word === 'VALID') {
      const [keyId = '', tenantId = '', expiresAt = '', permissions = '', scopeFilter = ''] = parts;
      return {
        valid: true,
        tenant_id: tenantId,
        key_id: keyId,
        permissions: JSON.parse(permissions) as string[],
        scope_filter: JSON.parse(scopeFilter) as string[],
        expires_at: timeOf(expiresAt),
      };
    }
    const [reason = '', tenantId = '', keyId = ''] = parts;
    return { valid: false, tenant_id: tenantId, ...(keyId === '' ? {} : { key_id: keyId }), reason };
  }
}
