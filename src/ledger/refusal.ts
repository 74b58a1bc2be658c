/**
 * A refusal that the caller caused and can act on. Services throw it; the HTTP filter maps its code to a
 * status through the error catalogue. Anything else that is thrown is a defect or an outage.
 */
export class Refusal extends Error {
  override readonly name = 'Refusal';

  constructor(
    readonly code: ErrorCode,
    message: string,
    readonly details?: Record<string, unknown>,
  ) {
    super(message);
  }
}

/**
 * A bulk action whose filter matches more than one action may change. The protocol gives it the code of throttling, but as a
 * request that is not valid: waiting does not help.
 */
export class TooManyMatched extends Refusal {
  constructor(totalMatched: number, limit: number) {
    super(
      'LIMIT_EXCEEDED',
      `the filter matches ${totalMatched}, and one action changes at most ${limit}; narrow the filter`,
      {
        total_matched: totalMatched,
        limit,
      },
    );
  }
}

/**
 * The tenant owns as much as it may. Where that falls by itself, as live reservations and stored bytes do, it is throttling:
 * 429 with the seconds to wait. Elsewhere waiting does not help, and it is a request that is not valid.
 */
export class TenantLimitExceeded extends Refusal {
  constructor(
    limit: TenantLimit,
    allowed: number,
    used: number,
    readonly retryAfterS?: number,
  ) {
    super('LIMIT_EXCEEDED', `the tenant's limit on ${limit} is reached: ${used} of ${allowed} are in use`, {
      limit,
      allowed,
      used,
    });
  }
}

/** Too much is being done for the caller at the same time. Nothing was begun; waiting helps. */
export class TooBusy extends Refusal {
  constructor(
    what: string,
    readonly retryAfterS: number,
  ) {
    super('LIMIT_EXCEEDED', `${what}; retry in ${retryAfterS} s`);
  }
}

/**
 * Every refusal that Holdfast can give. The runtime plane uses the closed `ErrorCode` list of
 * cycles-protocol-v0; the governance plane adds its own codes (cycles-governance-admin-v0.1.25).
 */
export const RUNTIME_ERROR_CODES = [
  'INVALID_REQUEST',
  'UNAUTHORIZED',
  'FORBIDDEN',
  'NOT_FOUND',
  'BUDGET_EXCEEDED',
  'BUDGET_FROZEN',
  'BUDGET_CLOSED',
  'RESERVATION_EXPIRED',
  'RESERVATION_FINALIZED',
  'IDEMPOTENCY_MISMATCH',
  'UNIT_MISMATCH',
  'OVERDRAFT_LIMIT_EXCEEDED',
  'DEBT_OUTSTANDING',
  'MAX_EXTENSIONS_EXCEEDED',
  'LIMIT_EXCEEDED',
  'TENANT_CLOSED',
  'INTERNAL_ERROR',
] as const;

export const GOVERNANCE_ERROR_CODES = [
  'TENANT_NOT_FOUND',
  'BUDGET_NOT_FOUND',
  'EVENT_NOT_FOUND',
  'INSUFFICIENT_PERMISSIONS',
  'KEY_REVOKED',
  'KEY_EXPIRED',
  'DUPLICATE_RESOURCE',
  'WEBHOOK_NOT_FOUND',
  'WEBHOOK_URL_INVALID',
  'COUNT_MISMATCH',
  'REPLAY_IN_PROGRESS',
] as const;

export type ErrorCode = (typeof RUNTIME_ERROR_CODES)[number] | (typeof GOVERNANCE_ERROR_CODES)[number];

/** What a tenant may own only so much of. `stored_bytes` is an estimate: docs/operations.md has its formula. */
export const TENANT_LIMITS = [
  'live_reservations',
  'budgets',
  'policies',
  'api_keys',
  'webhooks',
  'stored_bytes',
] as const;
export type TenantLimit = (typeof TENANT_LIMITS)[number];
