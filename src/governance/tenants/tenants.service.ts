import { Injectable } from '@nestjs/common';
import { Refusal } from '../../ledger/index.js';
import { RedisService, tenantIndexKey, tenantKey } from '../../redis/index.js';
import { fieldsOf, found, PageSelection, Records, type Page } from '../listing/index.js';
import type { Origin } from '../origin.js';
import { TENANT_ID_PATTERN } from '../tenant-id.js';
import { TENANT_DEFAULTS, tenantOf, type Tenant } from './tenant.js';
import type { TenantCreateDto, TenantListQueryDto } from './tenant.dto.js';

/** The settings of a create request that the record keeps as they are; what is absent has its default when it is read. */
const SETTINGS = [
  'parent_tenant_id',
  'default_commit_overage_policy',
  'default_reservation_ttl_ms',
  'max_reservation_ttl_ms',
  'max_reservation_extensions',
] as const;

@Injectable()
export class TenantsService {
  constructor(
    private readonly redis: RedisService,
    private readonly records: Records,
  ) {}

  /**
   * Registers a tenant, or returns the one that is registered under this id and name already.
   * @throws Refusal INVALID_REQUEST, DUPLICATE_RESOURCE (the id has another name).
   */
  async create(request: TenantCreateDto, origin: Origin): Promise<{ created: boolean; tenant: Tenant }> {
    const maxTtlMs = request.max_reservation_ttl_ms ?? TENANT_DEFAULTS.maxReservationTtlMs;
    if ((request.default_reservation_ttl_ms ?? 0) > maxTtlMs) {
      throw new Refusal(
        'INVALID_REQUEST',
        `default_reservation_ttl_ms must not exceed max_reservation_ttl_ms, which is ${maxTtlMs}`,
        { field: 'default_reservation_ttl_ms' },
      );
    }
    const fields: (string | number)[] = SETTINGS.flatMap((name) => {
      const value = request[name];
      return value === undefined ? [] : [name, value];
    });
    if (request.metadata !== undefined) {
      fields.push('metadata', JSON.stringify(request.metadata));
    }
    const tag = this.records.tagOfTenant(request.tenant_id);
    const [word, ...record] = await this.redis.scripts.run(
      'create_tenant',
      [tenantKey(tag, request.tenant_id), tenantIndexKey(tag)],
      [request.tenant_id, request.name, ...origin, ...fields],
    );
    if (word === 'DUPLICATE') {
      throw new Refusal('DUPLICATE_RESOURCE', `the tenant ${request.tenant_id} exists already, with another name`);
    }
    return { created: word === 'CREATED', tenant: tenantOf(fieldsOf(record)) };
  }

  /** @throws Refusal TENANT_NOT_FOUND */
  async get(tenantId: string): Promise<Tenant> {
    const known = TENANT_ID_PATTERN.test(tenantId);
    const fields = known ? await this.records.read(tenantKey(this.records.tagOfTenant(tenantId), tenantId)) : undefined;
    if (fields === undefined) {
      throw new Refusal('TENANT_NOT_FOUND', 'there is no such tenant');
    }
    return tenantOf(fields);
  }

  /** Newest first, unless asked otherwise. @throws Refusal INVALID_REQUEST for a foreign cursor. */
  async list({ cursor, limit, ...query }: TenantListQueryDto): Promise<Page<Tenant>> {
    const { status, parent_tenant_id: parent, search, sort_by: sortBy = 'created_at', sort_dir: direction = 'desc' } = query;
    const selection = new PageSelection<Tenant>({
      query: { list: 'tenants', ...query },
      cursor,
      limit,
      direction,
      valueOf: (tenant) => tenant[sortBy],
      idOf: (tenant) => tenant.tenant_id,
    });
    await this.records.eachTenant((fields) => {
      const tenant = tenantOf(fields);
      const wanted =
        (status === undefined || tenant.status === status) &&
        (parent === undefined || tenant.parent_tenant_id === parent) &&
        found(search, tenant.tenant_id, tenant.name);
      if (wanted) {
        selection.offer(tenant);
      }
    });
    return selection.page();
  }
}
