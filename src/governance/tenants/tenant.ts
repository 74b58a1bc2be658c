import { OVERAGE_POLICIES, type OveragePolicy } from '../../ledger/index.js';
import { fieldOf, optionalText, optionalTime, timeOf, type Fields } from '../listing/index.js';
import { EXPIRY_POLICIES, TENANT_STATUSES, type ExpiryPolicy, type TenantStatus } from './tenant.dto.js';

/** What a tenant has where its creation named nothing: Tenant of cycles-governance-admin-v0.1.25. */
export const TENANT_DEFAULTS = {
  commitOveragePolicy: 'ALLOW_IF_AVAILABLE',
  reservationTtlMs: 60_000,
  maxReservationTtlMs: 3_600_000,
  maxReservationExtensions: 10,
  reservationExpiryPolicy: 'AUTO_RELEASE',
} as const;

/** Tenant of cycles-governance-admin-v0.1.25. */
export interface Tenant {
  readonly tenant_id: string;
  readonly name: string;
  readonly status: TenantStatus;
  readonly parent_tenant_id?: string;
  readonly default_commit_overage_policy: OveragePolicy;
  readonly default_reservation_ttl_ms: number;
  readonly max_reservation_ttl_ms: number;
  readonly max_reservation_extensions: number;
  readonly reservation_expiry_policy: ExpiryPolicy;
  readonly metadata?: Record<string, string>;
  readonly created_at: string;
  readonly updated_at: string;
  readonly suspended_at?: string;
  readonly closed_at?: string;
}

function oneOf<T extends string>(values: readonly T[], text: string): T {
  const value = values.find((candidate) => candidate === text);
  if (value === undefined) {
    throw new Error(`corrupt tenant record: ${text} is none of ${values.join(', ')}`);
  }
  return value;
}

function integerOf(fields: Fields, name: string, fallback: number): number {
  const value = Number(fields.get(name) ?? fallback);
  if (!Number.isSafeInteger(value)) {
    throw new Error(`corrupt tenant record: ${name} is no integer`);
  }
  return value;
}

/** The members that a list reads for the rows that it shows. @throws Error when Holdfast did not write the record so. */
export function tenantTexts(fields: Fields): Pick<Tenant, 'metadata'> {
  const metadata = fields.get('metadata');
  return metadata === undefined ? {} : { metadata: JSON.parse(metadata) as Record<string, string> };
}

/** @throws Error when Holdfast did not write the record so. */
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
    ...tenantTexts(fields),
    created_at: timeOf(fieldOf(fields, 'created_at')),
    updated_at: timeOf(fieldOf(fields, 'updated_at')),
    ...optionalTime(fields, 'suspended_at'),
    ...optionalTime(fields, 'closed_at'),
  };
}
