import { parseJson } from '../../http/index.js';
import { fieldOf, optionalText, optionalTime, timeOf, type Fields } from '../listing/index.js';
import { POLICY_STATUSES, type PolicyStatus } from './policy.dto.js';

/** Policy of cycles-governance-admin-v0.1.25. */
export interface Policy {
  readonly policy_id: string;
  readonly name: string;
  readonly description?: string;
  readonly scope_pattern: string;
  readonly priority: number;
  readonly caps?: unknown;
  readonly commit_overage_policy?: string;
  readonly reservation_ttl_override?: Readonly<Record<string, number>>;
  readonly status: PolicyStatus;
  readonly effective_from?: string;
  readonly effective_until?: string;
  readonly created_at: string;
  readonly updated_at: string;
}

/** The stored fields of reservation_ttl_override, which bear its members' names. */
export const TTL_FIELDS = ['default_ttl_ms', 'max_ttl_ms', 'max_extensions'] as const;

/** The members that a list reads for the rows that it shows. @throws Error when Holdfast did not write the record so. */
export function policyTexts(fields: Fields): Pick<Policy, 'description' | 'caps'> {
  const caps = fields.get('caps');
  return {
    ...optionalText(fields, 'description'),
    ...(caps === undefined ? {} : { caps: parseJson(decodeURIComponent(caps)) }),
  };
}

/** @throws Error when Holdfast did not write the record so. */
export function policyOf(fields: Fields, policyId: string): Policy {
  const status = POLICY_STATUSES.find((known) => known === fields.get('status'));
  if (status === undefined) {
    throw new Error(`corrupt policy record ${policyId}: its status is ${fields.get('status')}`);
  }
  const lease = TTL_FIELDS.flatMap((name) =>
    fields.has(name) ? [[name, Number(fieldOf(fields, name))] as const] : [],
  );
  return {
    policy_id: policyId,
    name: fieldOf(fields, 'name'),
    ...policyTexts(fields),
    scope_pattern: fieldOf(fields, 'scope_pattern'),
    priority: Number(fieldOf(fields, 'priority')),
    ...optionalText(fields, 'commit_overage_policy'),
    ...(lease.length === 0 ? {} : { reservation_ttl_override: Object.fromEntries(lease) }),
    status,
    ...optionalTime(fields, 'effective_from'),
    ...optionalTime(fields, 'effective_until'),
    created_at: timeOf(fieldOf(fields, 'created_at')),
    updated_at: timeOf(fieldOf(fields, 'updated_at')),
  };
}
