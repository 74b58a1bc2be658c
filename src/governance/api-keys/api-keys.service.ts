import { Injectable } from '@nestjs/common';
import type { Answer } from '../../answers/index.js';
import {
  ApiKeyVerifier,
  DEFAULT_PERMISSIONS,
  hashOfSecret,
  mayActFor,
  type Tenants,
} from '../../auth/index.js';
import { DAY_MS, oneLine, randomBase62, refusalIn, type Refused, tenantClosed } from '../../ledger/index.js';
import { TenantLimits } from '../../limits/index.js';
import {
  apiKeyHashKey,
  apiKeyIndexKey,
  apiKeyKey,
  codeOfTenant,
  keyRevokedChannel,
  orStoreError,
  Records,
  RedisService,
  tagOf,
  tagOfKeyId,
  tenantKey,
} from '../../redis/index.js';
import {
  fieldOf,
  type Fields,
  instantMs,
  matchesSearch,
  optionalText,
  optionalTime,
  type Origin,
  type Page,
  readJson,
  readTexts,
  RecordSelection,
  sortOrderOf,
  stringifyJson,
  timeOf,
} from '../../wire/index.js';
import {
  API_KEY_SORT_KEYS,
  type ApiKeyCreateDto,
  type ApiKeyListQueryDto,
  type ApiKeyStatus,
  type ApiKeyUpdateDto,
} from './api-key.dto.js';

/** ApiKey of cycles-governance-admin-v0.1.25. Neither the secret nor its hash is part of it. */
export type ApiKey = Answer<'ApiKey'>;

function statusOf(fields: Fields, nowMs: number): ApiKeyStatus {
  const status = fieldOf(fields, 'status');
  if (status !== 'ACTIVE' && status !== 'REVOKED') {
    throw new Error(`corrupt API key record: its status is ${status}`);
  }
  return status === 'ACTIVE' && Number(fieldOf(fields, 'expires_at')) <= nowMs ? 'EXPIRED' : status;
}

/** The members that a list reads only for the rows of its page. @throws Error when the record is corrupt. */
export function apiKeyTexts(fields: Fields): Pick<ApiKey, 'description' | 'metadata'> {
  const metadata = fields.get('metadata');
  return {
    ...optionalText(fields, 'description'),
    ...(metadata === undefined ? {} : { metadata: readJson(metadata) as Record<string, unknown> }),
  };
}

const textsOf = (fields: Fields, name: string): string[] =>
  readTexts(fieldOf(fields, name), `${name} of an API key`);

/** `nowMs` is the time of Redis. A revoked key never becomes EXPIRED. @throws Error when the record is corrupt. */
export function apiKeyOf(fields: Fields, nowMs: number): ApiKey {
  return {
    key_id: fieldOf(fields, 'key_id'),
    tenant_id: fieldOf(fields, 'tenant_id'),
    key_prefix: fieldOf(fields, 'key_prefix'),
    name: fieldOf(fields, 'name'),
    ...apiKeyTexts(fields),
    permissions: textsOf(fields, 'permissions'),
    scope_filter: textsOf(fields, 'scope_filter'),
    status: statusOf(fields, nowMs),
    created_at: timeOf(fieldOf(fields, 'created_at')),
    expires_at: timeOf(fieldOf(fields, 'expires_at')),
    ...optionalTime(fields, 'last_used_at'),
    ...optionalTime(fields, 'revoked_at'),
    ...optionalText(fields, 'revoked_reason'),
  };
}

/** EXPIRY of createApiKey recommends 90 days, so that is the default. */
const DEFAULT_LIFE_MS = 90 * DAY_MS;
/** 43 base62 characters hold 256 bits. The first four are shown to tell keys apart; 232 bits stay secret. */
const SECRET_LENGTH = 43;
const SHOWN_LENGTH = 4;

/** ApiKeyCreateResponse of cycles-governance-admin-v0.1.25. */
export type CreatedApiKey = Pick<
  ApiKey,
  'key_id' | 'key_prefix' | 'tenant_id' | 'permissions' | 'scope_filter' | 'created_at' | 'expires_at'
> & { readonly key_secret: string };

export const HASHED_SECRET = /^cyc_(?:live|test)_([0-9a-f]{2}):([\w-]{43})$/;

/** The id of a key that is named by its id or by the hash of its secret, if there is one. @throws StoreUnavailable */
export async function keyIdOf({ client }: RedisService, idOrHash: string): Promise<string | null> {
  const [, code, secretHash = ''] = HASHED_SECRET.exec(idOrHash) ?? [];
  return code === undefined ? idOrHash : orStoreError(client.get(apiKeyHashKey(tagOf(code), secretHash)));
}

@Injectable()
export class ApiKeysService {
  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
    private readonly verifier: ApiKeyVerifier,
    private readonly limits: TenantLimits,
  ) {}

  /**
   * Creates a key for a tenant. Only this response ever contains its secret.
   * @throws Refusal INVALID_REQUEST (no such tenant, expiry in the past), TENANT_CLOSED, LIMIT_EXCEEDED.
   */
  async create(request: ApiKeyCreateDto, origin: Origin): Promise<CreatedApiKey> {
    const { tenant_id: tenantId, description, metadata } = request;
    const code = codeOfTenant(tenantId, this.redis.partitions);
    const tag = tagOf(code);
    const keyId = `key_${code}${randomBase62(16)}`;
    const secret = `cyc_live_${code}${randomBase62(SECRET_LENGTH)}`;
    const secretHash = hashOfSecret(secret);
    const fields = ['key_prefix', secret.slice(0, secret.length - SECRET_LENGTH + SHOWN_LENGTH)];
    if (description !== undefined) {
      fields.push('description', description);
    }
    if (metadata !== undefined) {
      fields.push(...metadataFields(metadata));
    }
    const reply = await this.redis.scripts.call(
      'create_api_key',
      {
        apiKey: apiKeyKey(tag, keyId),
        secretHash: apiKeyHashKey(tag, secretHash),
        apiKeyIndex: apiKeyIndexKey(tag, tenantId),
        tenant: tenantKey(tag, tenantId),
      },
      {
        tenantId,
        apiKeyId: keyId,
        hash: secretHash,
        name: request.name,
        permissions: permissionsText(request.permissions ?? DEFAULT_PERMISSIONS),
        scopeFilter: scopeFilterText(request.scope_filter ?? []),
        expiresAtMs: instantMs(request.expires_at) ?? '',
        defaultLifeMs: DEFAULT_LIFE_MS,
        ...origin,
        maxApiKeys: this.limits.deployment.api_keys,
        rest: fields,
      },
    );
    if (reply.status === 'LIMIT_EXCEEDED') {
      throw this.limits.refusal(reply);
    }
    if (reply.status !== 'CREATED') {
      throw refusalOf(reply.status);
    }
    const { key_id, key_prefix, tenant_id, permissions, scope_filter, created_at, expires_at } = apiKeyOf(
      reply.record,
      0,
    );
    return {
      key_id,
      key_secret: secret,
      key_prefix,
      tenant_id,
      permissions,
      scope_filter,
      created_at,
      expires_at,
    };
  }

  /** One key, by its id, or by how its secret begins and its hash: `cyc_live_1f:<hash>`. @throws Refusal NOT_FOUND */
  async find(idOrHash: string): Promise<ApiKey> {
    const keyId = (await keyIdOf(this.redis, idOrHash)) ?? '';
    const tag = tagOfKeyId(keyId, this.redis.partitions);
    const fields = tag === undefined ? undefined : await this.records.read(apiKeyKey(tag, keyId));
    if (fields === undefined) {
      throw refusalOf('NOT_FOUND');
    }
    return apiKeyOf(fields, this.redis.clock.nowMs());
  }

  /**
   * Newest first by default.
   * @param tenants that the operator is confined to
   * @throws Refusal INVALID_REQUEST for another query's cursor.
   */
  async list(request: ApiKeyListQueryDto, tenants: Tenants): Promise<Page<ApiKey>> {
    const { cursor, limit, ...query } = request;
    const { tenant_id: tenantId, status, search } = query;
    const order = sortOrderOf(request, API_KEY_SORT_KEYS, { sortBy: 'created_at', direction: 'desc' });
    const selection = new RecordSelection<ApiKey>({
      query: { list: 'api-keys', ...query, tenants },
      order,
      cursor,
      limit,
      valueOf: (key) => key[order.sortBy],
      idOf: (key) => key.key_id,
    });
    await this.records.eachOwned('list_api_keys', tenantId, (fields, nowMs) => {
      if (!mayActFor(tenants, fields.get('tenant_id') ?? '')) {
        return;
      }
      const key = this.records.whole('api_key', fields, () => apiKeyOf(fields, nowMs));
      if (
        key !== undefined &&
        (status === undefined || key.status === status) &&
        matchesSearch(search, key.key_id, key.name)
      ) {
        selection.offer(key);
      }
    });
    return this.records.withTexts(
      'api_key',
      selection.page(),
      (row) => ({ tenantId: row.tenant_id, id: row.key_id }),
      apiKeyTexts,
    );
  }

  /**
   * Changes the given properties. Changed permissions apply in this instance before this returns. Other instances apply them
   * when the announcement arrives, and within a second at the latest.
   * @throws Refusal NOT_FOUND, TENANT_CLOSED, KEY_REVOKED, KEY_EXPIRED.
   */
  async update(keyId: string, request: ApiKeyUpdateDto, origin: Origin): Promise<ApiKey> {
    const tag = tagOfKeyId(keyId, this.redis.partitions);
    if (tag === undefined) {
      throw refusalOf('NOT_FOUND');
    }
    const reply = await this.redis.scripts.call(
      'update_api_key',
      { apiKey: apiKeyKey(tag, keyId) },
      { apiKeyId: keyId, channel: keyRevokedChannel(), ...origin, rest: fieldsToStore(request) },
    );
    if (reply.status !== 'UPDATED') {
      throw refusalOf(reply.status);
    }
    this.verifier.forget(fieldOf(reply.record, 'secret_hash'));
    return apiKeyOf(reply.record, reply.nowMs);
  }

  /**
   * Revokes a key: in this instance before this returns, in the others when the announcement arrives.
   * @throws Refusal NOT_FOUND, KEY_REVOKED, TENANT_CLOSED.
   */
  async revoke(keyId: string, reason: string | undefined, origin: Origin): Promise<ApiKey> {
    const tag = tagOfKeyId(keyId, this.redis.partitions);
    if (tag === undefined) {
      throw refusalOf('NOT_FOUND');
    }
    const reply = await this.redis.scripts.call(
      'revoke_api_key',
      { apiKey: apiKeyKey(tag, keyId) },
      { apiKeyId: keyId, reason: oneLine(reason), channel: keyRevokedChannel(), ...origin },
    );
    if (reply.status !== 'REVOKED') {
      throw refusalOf(reply.status);
    }
    this.verifier.forget(fieldOf(reply.record, 'secret_hash'));
    return apiKeyOf(reply.record, 0);
  }
}

const REFUSALS: Readonly<Record<string, Refused>> = {
  TENANT_NOT_FOUND: ['INVALID_REQUEST', 'tenant_id names no tenant', { field: 'tenant_id' }],
  TENANT_CLOSED: tenantClosed('API keys'),
  EXPIRES_IN_PAST: ['INVALID_REQUEST', 'expires_at must be in the future', { field: 'expires_at' }],
  NOT_FOUND: ['NOT_FOUND', 'there is no such API key'],
  ALREADY_REVOKED: ['KEY_REVOKED', 'the API key is already revoked'],
  KEY_EXPIRED: ['KEY_EXPIRED', 'the API key has expired and can no longer change'],
};

const refusalOf = (word: string): Error => refusalIn(REFUSALS, word, 'an API key script');

function permissionsText(permissions: readonly string[]): string {
  return JSON.stringify([...new Set(permissions)]);
}

/** Scopes are lower case, so their filters are too. */
function scopeFilterText(filter: readonly string[]): string {
  return JSON.stringify(filter.map((entry) => entry.toLowerCase()));
}

/**
 * `evidence_references: false` in the metadata makes answers to the key have no references to their evidence. It is there because the
 * protocol's requests for keys are closed, and its clients can set metadata.
 */
function metadataFields(metadata: Record<string, unknown>): string[] {
  const references = metadata['evidence_references'] !== false;
  return ['metadata', stringifyJson(metadata), 'evidence_references', String(references)];
}

function fieldsToStore({
  name,
  description,
  permissions,
  scope_filter: filter,
  metadata,
}: ApiKeyUpdateDto): string[] {
  return [
    ...(name === undefined ? [] : ['name', name]),
    ...(description === undefined ? [] : ['description', description]),
    ...(permissions === undefined ? [] : ['permissions', permissionsText(permissions)]),
    ...(filter === undefined ? [] : ['scope_filter', scopeFilterText(filter)]),
    ...(metadata === undefined ? [] : metadataFields(metadata)),
  ];
}
