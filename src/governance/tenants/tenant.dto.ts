import { IsIn, IsString } from 'class-validator';
import { BulkRequestDto } from '../../bulk/index.js';
import {
  MAX_TTL_MS,
  MIN_TTL_MS,
  OBSERVE_MODES,
  type ObserveMode,
  OVERAGE_POLICIES,
  type OveragePolicy,
  TENANT_ID_PATTERN,
} from '../../ledger/index.js';
import {
  fieldsFrom,
  IsInt,
  IsStringMap,
  Length,
  ListQueryDto,
  Matches,
  MaxJsonBytes,
  Nested,
  Optional,
} from '../../wire/index.js';

export const TENANT_STATUSES = ['ACTIVE', 'SUSPENDED', 'CLOSED'] as const;
export type TenantStatus = (typeof TENANT_STATUSES)[number];

/** What happens to a reservation after its grace period: decision 15 in docs/adr. */
export const EXPIRY_POLICIES = ['AUTO_RELEASE', 'MANUAL_CLEANUP', 'GRACE_ONLY'] as const;
export type ExpiryPolicy = (typeof EXPIRY_POLICIES)[number];

/** The settings that both create and update accept. */
class TenantSettingsDto {
  /** Of cycles-governance-extensions-v0.1.26. */
  @Optional(IsIn(OBSERVE_MODES))
  observe_mode?: ObserveMode;

  @Optional()
  @IsStringMap({ maxEntries: 32, maxValueLength: 8192 })
  @MaxJsonBytes()
  metadata?: Record<string, string>;

  @Optional(IsIn(OVERAGE_POLICIES))
  default_commit_overage_policy?: OveragePolicy;

  @Optional(IsInt({ min: MIN_TTL_MS, max: MAX_TTL_MS }))
  default_reservation_ttl_ms?: number;

  @Optional(IsInt({ min: MIN_TTL_MS, max: MAX_TTL_MS }))
  max_reservation_ttl_ms?: number;

  @Optional(IsInt({ min: 0, max: 2_147_483_647 }))
  max_reservation_extensions?: number;
}

/** TenantCreateRequest of cycles-governance-admin-v0.1.25. */
export class TenantCreateDto extends TenantSettingsDto {
  @Matches(TENANT_ID_PATTERN)
  tenant_id!: string;

  @Length(1, 256)
  name!: string;

  @Optional(Matches(TENANT_ID_PATTERN))
  parent_tenant_id?: string;

  @Optional(IsIn(EXPIRY_POLICIES))
  reservation_expiry_policy?: ExpiryPolicy;
}

/** The body of updateTenant of cycles-governance-admin-v0.1.25. */
export class TenantUpdateDto extends TenantSettingsDto {
  @Optional(Length(1, 256))
  name?: string;

  @Optional(IsIn(TENANT_STATUSES))
  status?: TenantStatus;
}

/** Body of PUT /ops/tenants/{tenant_id}/expiry-policy. */
export class ExpiryPolicyDto {
  @IsIn(EXPIRY_POLICIES)
  reservation_expiry_policy!: ExpiryPolicy;
}

export const TENANT_SORT_KEYS = ['tenant_id', 'name', 'status', 'created_at'] as const;

export class TenantListQueryDto extends ListQueryDto {
  @Optional(IsIn(TENANT_STATUSES))
  status?: TenantStatus;

  @Optional(IsString())
  parent_tenant_id?: string;

  @Optional(IsIn(OBSERVE_MODES))
  observe_mode?: ObserveMode;

  @Optional(IsIn(TENANT_SORT_KEYS))
  sort_by?: (typeof TENANT_SORT_KEYS)[number];
}

/** TenantBulkFilter of cycles-governance-admin-v0.1.25. */
export class TenantBulkFilterDto extends fieldsFrom(
  TenantListQueryDto,
  'status',
  'parent_tenant_id',
  'observe_mode',
  'search',
) {}

export const TENANT_BULK_ACTIONS = ['SUSPEND', 'REACTIVATE', 'CLOSE'] as const;

/** TenantBulkActionRequest of cycles-governance-admin-v0.1.25. */
export class TenantBulkActionDto extends BulkRequestDto {
  @Nested(() => TenantBulkFilterDto)
  filter!: TenantBulkFilterDto;

  @IsIn(TENANT_BULK_ACTIONS)
  action!: (typeof TENANT_BULK_ACTIONS)[number];
}
