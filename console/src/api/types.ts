import type { AmountOf } from '../parts/amount';

/** BudgetLedger of the API, as far as pages use it. */
export interface Budget {
  readonly ledger_id: string;
  readonly tenant_id: string;
  readonly scope: string;
  readonly unit: string;
  readonly allocated: AmountOf;
  readonly remaining: AmountOf;
  readonly reserved: AmountOf;
  readonly spent: AmountOf;
  readonly debt: AmountOf;
  readonly overdraft_limit: AmountOf;
  readonly is_over_limit: boolean;
  readonly commit_overage_policy?: string;
  readonly rollover_policy: 'NONE' | 'CARRY_FORWARD' | 'CAP_AT_ALLOCATED';
  readonly period_start?: string;
  readonly period_end?: string;
  readonly status: 'ACTIVE' | 'FROZEN' | 'CLOSED';
  readonly created_at: string;
  readonly updated_at: string;
}

/** Tenant of the API. */
export interface Tenant {
  readonly tenant_id: string;
  readonly name: string;
  readonly status: 'ACTIVE' | 'SUSPENDED' | 'CLOSED';
  readonly default_commit_overage_policy: string;
  readonly default_reservation_ttl_ms: number;
  readonly max_reservation_ttl_ms: number;
  readonly max_reservation_extensions: number;
  readonly reservation_expiry_policy: string;
  readonly created_at: string;
  readonly closed_at?: string;
}

/** ReservationSummary of the API. */
export interface Reservation {
  readonly reservation_id: string;
  readonly status: 'ACTIVE' | 'COMMITTED' | 'RELEASED' | 'EXPIRED';
  readonly idempotency_key?: string;
  readonly reserved: AmountOf;
  readonly committed?: AmountOf;
  readonly created_at_ms: number;
  readonly expires_at_ms: number;
  readonly finalized_at_ms?: number;
  readonly scope_path: string;
  readonly affected_scopes: readonly string[];
}
