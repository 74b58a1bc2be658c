import { percentDecoded, QUOTA_WINDOWS, type QuotaWindow, RISK_COUNTER } from '../../ledger/index.js';
import { timeOf } from '../../wire/index.js';

/** ActionQuotaState of cycles-action-kinds-v0.1.26. */
export interface QuotaCounter {
  readonly action_kind: string;
  readonly risk_class?: string;
  readonly scope: string;
  readonly scope_path: string;
  readonly window: QuotaWindow;
  /** The minute, hour or day in UTC, or the run. */
  readonly window_key: string;
  readonly used: number;
  readonly limit: number;
  readonly remaining: number;
  /** The policy that counted last. */
  readonly policy_id?: string;
  /** When the window ends; of a run, when its counter lapses without further reserves. */
  readonly expires_at: string;
  readonly last_incremented_at?: string;
}

/** A counter as scripts return it. */
export interface StoredCounter {
  readonly scope: string;
  readonly window: string;
  /** Begins with `__risk__:` for a risk class. */
  readonly kind: string;
  readonly windowKey: string;
  readonly used: number;
  readonly limit: number;
  readonly policyId?: string;
  readonly lastMs: number;
  readonly expiresMs: number;
}

export function quotaCounterOf(stored: StoredCounter): QuotaCounter {
  const { kind, scope, used, limit, policyId } = stored;
  const isRisk = kind.startsWith(`${RISK_COUNTER}:`);
  const window = QUOTA_WINDOWS.find((name) => name === stored.window);
  if (window === undefined) {
    throw new Error(`corrupt action counter: it has the window ${stored.window}`);
  }
  return {
    action_kind: isRisk ? RISK_COUNTER : kind,
    ...(isRisk ? { risk_class: kind.slice(RISK_COUNTER.length + 1) } : {}),
    scope,
    scope_path: scope,
    window,
    window_key: percentDecoded(stored.windowKey),
    used,
    limit,
    remaining: Math.max(0, limit - used),
    ...(policyId === undefined ? {} : { policy_id: policyId }),
    expires_at: timeOf(stored.expiresMs.toString()),
    // A counter that was reset keeps no trace of what it had counted.
    ...(used === 0 ? {} : { last_incremented_at: timeOf(stored.lastMs.toString()) }),
  };
}
