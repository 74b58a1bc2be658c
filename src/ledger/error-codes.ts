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
