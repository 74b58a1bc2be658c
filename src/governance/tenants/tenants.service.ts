import { Injectable } from '@nestjs/common';
import type { Answer } from '../../answers/index.js';
import { mayActFor, type Tenants } from '../../auth/index.js';
import {
  invalidField,
  OBSERVE_MODES,
  OVERAGE_POLICIES,
  Refusal,
  TENANT_ID_PATTERN,
} from '../../ledger/index.js';
import { Records, RedisService, type ScriptReply, tenantIndexKey, tenantKey } from '../../redis/index.js';
import {
  fieldOf,
  type Fields,
  matchesSearch,
  optionalText,
  optionalTime,
  type Origin,
  type Page,
  readJson,
  RecordSelection,
  sortOrderOf,
  timeOf,
} from '../../wire/index.js';
import { CHARGE_FIELD } from '../charge-on-expiry.dto.js';
import { NOT_CLOSABLE, TenantClosing } from './tenant-closing.js';
import {
  EXPIRY_POLICIES,
  type ExpiryPolicyDto,
  TENANT_SORT_KEYS,
  TENANT_STATUSES,
  type TenantCreateDto,
  type TenantListQueryDto,
  type TenantUpdateDto,
} from './tenant.dto.js';

/** The defaults of Tenant in cycles-governance-admin-v0.1.25 and cycles-governance-extensions-v0.1.26. */
export const TENANT_DEFAULTS = {
  commitOveragePolicy: 'ALLOW_IF_AVAILABLE',
  reservationTtlMs: 60_000,
  maxReservationTtlMs: 3_600_000,
  maxReservationExtensions: 10,
  reservationExpiryPolicy: 'AUTO_RELEASE',
  observeMode: 'ENFORCE',
} as const;

/** Tenant of cycles-governance-admin-v0.1.25. */
export type Tenant = Answer<'Tenant'>;

function oneOf<T extends string>(values: readonly T[], text: string): T {
  const value = values.find((candidate) => candidate === text);
  if (value === undefined) {
    throw new Error(`corrupt tenant record: ${text} is not one of ${values.join(', ')}`);
  }
  return value;
}

function integerOf(fields: Fields, name: string, fallback: number): number {
  const value = Number(fields.get(name) ?? fallback);
  if (!Number.isSafeInteger(value)) {
    throw new Error(`corrupt tenant record: ${name} is not an integer`);
  }
  return value;
}

/** The members that a list reads only for the rows of its page. @throws Error when the record is corrupt. */
export function tenantTexts(fields: Fields): Pick<Tenant, 'metadata'> {
  const metadata = fields.get('metadata');
  return metadata === undefined ? {} : { metadata: readJson(metadata) as Record<string, string> };
}

/** @throws Error when the record is corrupt. */
export function tenantOf(fields: Fields): Tenant {
  const maxTtlMs = integerOf(fields, 'max_reservation_ttl_ms', TENANT_DEFAULTS.maxReservationTtlMs);
  return {
    tenant_id: fieldOf(fields, 'tenant_id'),
    name: fieldOf(fields, 'name'),
    status: oneOf(TENANT_STATUSES, fieldOf(fields, 'status')),
    ...optionalText(fields, 'parent_tenant_id'),
    default_commit_overage_policy: oneOf(
      OVERAGE_POLICIES,
      fields.get('default_commit_overage_policy') ?? TENANT_DEFAULTS.commitOveragePolicy,
    ),
    default_reservation_ttl_ms: integerOf(
      fields,
      'default_reservation_ttl_ms',
      Math.min(TENANT_DEFAULTS.reservationTtlMs, maxTtlMs),
    ),
    max_reservation_ttl_ms: maxTtlMs,
    max_reservation_extensions: integerOf(
      fields,
      'max_reservation_extensions',
      TENANT_DEFAULTS.maxReservationExtensions,
    ),
    reservation_expiry_policy: oneOf(
      EXPIRY_POLICIES,
      fields.get('reservation_expiry_policy') ?? TENANT_DEFAULTS.reservationExpiryPolicy,
    ),
    observe_mode: oneOf(OBSERVE_MODES, fields.get('observe_mode') ?? TENANT_DEFAULTS.observeMode),
    ...tenantTexts(fields),
    created_at: timeOf(fieldOf(fields, 'created_at')),
    updated_at: timeOf(fieldOf(fields, 'updated_at')),
    ...optionalTime(fields, 'suspended_at'),
    ...optionalTime(fields, 'closed_at'),
  };
}

/** The members that an update stores unchanged; metadata is stored as JSON. */
const UPDATABLE = [
  'name',
  'default_commit_overage_policy',
  'default_reservation_ttl_ms',
  'max_reservation_ttl_ms',
  'max_reservation_extensions',
  'reservation_expiry_policy',
  'observe_mode',
  CHARGE_FIELD,
] as const;

/** A request that closes a tenant works on what the tenant owns for at most this long, then leaves the rest to the janitor. */
const CLOSING_BUDGET_MS = 5000;

/** The settings that a create request stores unchanged. Absent ones get their default when the record is read. */
const SETTINGS = [
  'parent_tenant_id',
  'default_commit_overage_policy',
  'default_reservation_ttl_ms',
  'max_reservation_ttl_ms',
  'max_reservation_extensions',
  'reservation_expiry_policy',
  'observe_mode',
] as const;

@Injectable()
export class TenantsService {
  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
    private readonly closing: TenantClosing,
  ) {}

  /**
   * Creates a tenant, or returns the existing one with this id and name.
   * @throws Refusal INVALID_REQUEST, DUPLICATE_RESOURCE (the id exists with another name).
   */
  async create(request: TenantCreateDto, origin: Origin): Promise<{ created: boolean; tenant: Tenant }> {
    const maxTtlMs = request.max_reservation_ttl_ms ?? TENANT_DEFAULTS.maxReservationTtlMs;
    if ((request.default_reservation_ttl_ms ?? 0) > maxTtlMs) {
      throw invalidField(
        'default_reservation_ttl_ms',
        `default_reservation_ttl_ms must not exceed max_reservation_ttl_ms, which is ${maxTtlMs}`,
      );
    }
    const tag = this.records.tagOfTenant(request.tenant_id);
    const reply = await this.redis.scripts.call(
      'create_tenant',
      { tenant: tenantKey(tag, request.tenant_id), tenantIndex: tenantIndexKey(tag) },
      { tenantId: request.tenant_id, name: request.name, ...origin, rest: fieldsToStore(request, SETTINGS) },
    );
    if (reply.status === 'DUPLICATE') {
      throw new Refusal(
        'DUPLICATE_RESOURCE',
        `the tenant ${request.tenant_id} already exists with another name`,
      );
    }
    return { created: reply.status === 'CREATED', tenant: tenantOf(reply.record) };
  }

  /**
   * Changes the given settings. Closing is final: it blocks everything that the tenant owns at once and then closes it. Closing again
   * continues an interrupted closing.
   * @returns the tenant, and for a closing whether everything that it owns is closed
   * @throws Refusal INVALID_REQUEST (also: another status for a closed tenant), TENANT_NOT_FOUND, TENANT_CLOSED,
   * INTERNAL_ERROR with failed_resources when the tenant is closed but some of its resources cannot be.
   */
  async update(
    tenantId: string,
    request: TenantUpdateDto & Partial<ExpiryPolicyDto> & { readonly [CHARGE_FIELD]?: number },
    origin: Origin,
  ): Promise<{ tenant: Tenant; complete: boolean }> {
    if (!TENANT_ID_PATTERN.test(tenantId)) {
      throw updateRefusal({ status: 'NOT_FOUND' });
    }
    const reply = await this.redis.scripts.call(
      'update_tenant',
      { tenant: tenantKey(this.records.tagOfTenant(tenantId), tenantId) },
      {
        tenantId,
        status: request.status ?? '',
        ...origin,
        rest: fieldsToStore(request, UPDATABLE),
      },
    );
    if (reply.status !== 'UPDATED' && reply.status !== 'CLOSING') {
      throw updateRefusal(reply);
    }
    const tenant = tenantOf(reply.record);
    if (reply.status === 'UPDATED') {
      return { tenant, complete: true };
    }
    const { complete, failed } = await this.closing.closeOwned(tenantId, CLOSING_BUDGET_MS);
    if (failed.length > 0) {
      throw new Refusal('INTERNAL_ERROR', NOT_CLOSABLE, { failed_resources: failed });
    }
    return { tenant, complete };
  }

  /** @throws Refusal TENANT_NOT_FOUND */
  async get(tenantId: string): Promise<Tenant> {
    return tenantOf(await this.read(tenantId));
  }

  /** What share of its estimate a tenant's reservation costs if it expires. @throws Refusal TENANT_NOT_FOUND */
  async chargeOnExpiry(tenantId: string): Promise<{ tenant_id: string; percent: number }> {
    const fields = await this.read(tenantId);
    return { tenant_id: tenantId, percent: integerOf(fields, CHARGE_FIELD, 0) };
  }

  private async read(tenantId: string): Promise<Fields> {
    const known = TENANT_ID_PATTERN.test(tenantId);
    const fields = known
      ? await this.records.read(tenantKey(this.records.tagOfTenant(tenantId), tenantId))
      : undefined;
    if (fields === undefined) {
      throw new Refusal('TENANT_NOT_FOUND', 'there is no such tenant');
    }
    return fields;
  }

  /**
   * Newest first by default.
   * @param tenants that the operator is confined to
   * @throws Refusal INVALID_REQUEST for another query's cursor.
   */
  async list(request: TenantListQueryDto, tenants: Tenants): Promise<Page<Tenant>> {
    const { cursor, limit, ...query } = request;
    const order = sortOrderOf(request, TENANT_SORT_KEYS, { sortBy: 'created_at', direction: 'desc' });
    const selection = new RecordSelection<Tenant>({
      query: { list: 'tenants', ...query },
      order,
      cursor,
      limit,
      valueOf: (tenant) => tenant[order.sortBy],
      idOf: (tenant) => tenant.tenant_id,
    });
    await this.records.eachTenant((fields) => {
      if (!mayActFor(tenants, fields.get('tenant_id') ?? '')) {
        return;
      }
      const tenant = this.records.whole('tenant', fields, tenantOf);
      if (tenant !== undefined && matchesTenant(query, tenant)) {
        selection.offer(tenant);
      }
    });
    return this.records.withTexts(
      'tenant',
      selection.page(),
      ({ tenant_id: id }) => ({ tenantId: id, id }),
      tenantTexts,
    );
  }
}

/** What lists and bulk actions compare with their filter. */
interface FilteredTenant {
  readonly tenant_id: string;
  readonly name: string;
  readonly status: string;
  readonly parent_tenant_id?: string | undefined;
  readonly observe_mode: string;
}

/** Whether a tenant matches the whole filter. */
export function matchesTenant(
  {
    status,
    parent_tenant_id: parent,
    observe_mode: mode,
    search,
  }: Pick<TenantListQueryDto, 'status' | 'parent_tenant_id' | 'observe_mode' | 'search'>,
  tenant: FilteredTenant,
): boolean {
  return (
    (status === undefined || tenant.status === status) &&
    (parent === undefined || tenant.parent_tenant_id === parent) &&
    (mode === undefined || tenant.observe_mode === mode) &&
    matchesSearch(search, tenant.tenant_id, tenant.name)
  );
}

type UpdateRefusal = Exclude<ScriptReply<'update_tenant'>, { status: 'UPDATED' | 'CLOSING' }>;

function fieldsToStore<Name extends string>(
  request: { readonly [Field in Name]?: string | number } & { readonly metadata?: Record<string, string> },
  names: readonly Name[],
): (string | number)[] {
  const fields = names.flatMap((name): (string | number)[] => {
    const value = request[name];
    return value === undefined ? [] : [name, value];
  });
  return request.metadata === undefined ? fields : [...fields, 'metadata', JSON.stringify(request.metadata)];
}

function updateRefusal(reply: UpdateRefusal): Error {
  switch (reply.status) {
    case 'NOT_FOUND':
      return new Refusal('TENANT_NOT_FOUND', 'there is no such tenant');
    case 'TENANT_CLOSED':
      return new Refusal('TENANT_CLOSED', 'the tenant is closed and can no longer change');
    case 'IRREVERSIBLE':
      return invalidField('status', 'a closed tenant cannot have another status');
    case 'TTL_ABOVE_MAX':
      return invalidField(
        'default_reservation_ttl_ms',
        `default_reservation_ttl_ms must not exceed max_reservation_ttl_ms, which is ${reply.maxMs}`,
      );
  }
}
