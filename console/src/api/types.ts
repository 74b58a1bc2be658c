import type { AmountOf } from '../parts/amount';

/** BudgetLedger of the protocol, as far as pages use it. */
export interface Budget {
  readonly ledger_id: string;
  readonly tenant_id: string;
  readonly scope: string;
  readonly unit: string;
  readonly allocated: AmountOf;
  readonly remaining: AmountOf;
  readonly reserved?: AmountOf;
  readonly spent?: AmountOf;
  readonly debt?: AmountOf;
  readonly overdraft_limit?: AmountOf;
  readonly is_over_limit?: boolean;
  readonly commit_overage_policy?: string;
  readonly status: 'ACTIVE' | 'FROZEN' | 'CLOSED';
  readonly created_at: string;
  readonly updated_at?: string;
}
