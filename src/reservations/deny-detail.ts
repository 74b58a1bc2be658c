import { amountWords, INT64_MAX, percentDecoded } from '../ledger/index.js';
import { exactInteger } from '../wire/index.js';

/** What is known of a denial: the reason, and what a script says of it. Texts may be empty. */
export interface Denial {
  readonly reason: string;
  /** Whether what remains is kept for a reserve that waited longer. */
  readonly isKept?: boolean;
  readonly scope?: string | undefined;
  readonly remaining?: string | undefined;
  readonly policyId?: string | undefined;
  /** Of the quota that denied, or the window of the budget that did. The key of a quota's window is percent-encoded. */
  readonly window?: string | undefined;
  readonly windowKey?: string | undefined;
  readonly used?: string | undefined;
  /** Of the quota; or of the window of the budget, or without one what may be held in the budget's next period. */
  readonly limit?: string | undefined;
  readonly riskClass?: string | undefined;
  /** The kind of the action that was denied. */
  readonly kind?: string | undefined;
  readonly unit?: string | undefined;
  readonly amount?: string | undefined;
}

/** DenyDetail of cycles-protocol-extensions-v0.1.26. */
export type DenyDetail = Readonly<Record<string, unknown>> & { readonly reason_code: string };

const FIX_MAX_LENGTH = 512;

/** Members that are not known are absent. */
export function denyDetailOf(denial: Denial): DenyDetail {
  const { reason, scope, remaining, policyId } = denial;
  const fix = suggestedFix(denial);
  return {
    reason_code: reason,
    ...(reason === 'ACTION_QUOTA_EXCEEDED' ? { quota_violation: quotaViolation(denial) } : {}),
    ...(hasText(scope) ? { blocked_by_scope: scope } : {}),
    ...(hasText(policyId) ? { blocked_by_policy: policyId } : {}),
    ...(fix === undefined ? {} : { suggested_fix: fix.slice(0, FIX_MAX_LENGTH) }),
    ...(reason === 'BUDGET_EXCEEDED' && hasText(remaining)
      ? { budget_remaining: exactInteger(remaining) }
      : {}),
  };
}

/** ActionQuotaViolation of cycles-protocol-extensions-v0.1.26. */
function quotaViolation(denial: Denial): Readonly<Record<string, unknown>> {
  const {
    kind = 'unknown',
    window,
    windowKey = '',
    used = '0',
    limit = '0',
    scope,
    policyId,
    riskClass,
  } = denial;
  return {
    action_kind: kind,
    window,
    window_key: percentDecoded(windowKey),
    used: exactInteger(used),
    limit: exactInteger(limit),
    scope,
    policy_id: policyId,
    ...(hasText(riskClass) ? { risk_class: riskClass } : {}),
  };
}

function hasText(text: string | undefined): text is string {
  return text !== undefined && text !== '';
}

function suggestedFix(denial: Denial): string | undefined {
  const { reason, scope, policyId, kind = 'this action kind' } = denial;
  switch (reason) {
    case 'ACTION_KIND_DENIED':
      return `Remove ${kind} from denied_action_kinds of policy '${policyId}'`;
    case 'ACTION_KIND_NOT_ALLOWED':
      return `Add ${kind} to allowed_action_kinds of policy '${policyId}'`;
    case 'ACTION_QUOTA_EXCEEDED':
      return `Increase the quota of ${hasText(denial.riskClass) ? denial.riskClass : kind} above ${denial.limit} ${denial.window} in policy '${policyId}'`;
    case 'BUDGET_EXCEEDED': {
      if (denial.isKept === true) {
        return `Retry later: what remains at ${scope} is kept for a reserve that waited longer`;
      }
      const missing = missingAmount(denial);
      if (missing === undefined) {
        return undefined;
      }
      return budgetFix(denial, missing);
    }
    case 'DEBT_OUTSTANDING':
      return `Repay the debt of ${scope} before new reservations`;
    case 'OVERDRAFT_LIMIT_EXCEEDED':
      return `Fund ${scope} or raise its overdraft_limit`;
    case 'BUDGET_FROZEN':
      return `Unfreeze the budget of ${scope}`;
    default:
      return undefined;
  }
}

/** What helps where an amount is missing. Waiting does only where the window, or the next period, has room for all of it. */
function budgetFix({ scope, window, limit, amount = '', unit = '' }: Denial, missing: bigint): string {
  const words = (of: bigint): string => amountWords(of, unit);
  const isEnough = hasText(limit) && BigInt(limit) >= BigInt(amount);
  if (!hasText(window)) {
    const fund = `und ${scope} by at least ${words(missing)}`;
    return isEnough ? `Wait for the next period of ${scope}, or f${fund}` : `F${fund}`;
  }
  if (isEnough || !hasText(limit)) {
    return `Wait for the end of window ${window} of ${scope}, or raise its limit by at least ${words(missing)}`;
  }
  const asked = words(BigInt(amount));
  return `Raise the limit of window ${window} of ${scope}, which is ${words(BigInt(limit))} and never has room for ${asked}, by at least ${words(missing)}, or ask for less`;
}

/** What a budget lacks, or undefined where the figures do not say so. */
function missingAmount({ remaining, amount, scope, unit }: Denial): bigint | undefined {
  if (!hasText(remaining) || !hasText(amount) || !hasText(scope) || !hasText(unit)) {
    return undefined;
  }
  const missing = BigInt(amount) - BigInt(remaining);
  return missing > 0n && missing <= INT64_MAX ? missing : undefined;
}
