import type { ErrorCode } from '../ledger/index.js';

export interface CatalogueEntry {
  readonly status: number;
  /** Said when the refusal brings no words of its own. */
  readonly message: string;
}

/**
 * Every error code that Holdfast answers with, and its one HTTP status: ERROR SEMANTICS of cycles-protocol-v0, and for
 * the governance plane's own codes cycles-governance-admin-v0.1.25. An outage of the store is 503 with INTERNAL_ERROR,
 * and protocol failures below HTTP's semantics keep HTTP's own status (405, 408, 413, 431) with INVALID_REQUEST.
 */
export const ERROR_CATALOGUE: Readonly<Record<ErrorCode, CatalogueEntry>> = {
  INVALID_REQUEST: { status: 400, message: 'the request is not valid' },
  UNIT_MISMATCH: { status: 400, message: 'the unit is not the one that the budget or the reservation has' },
  WEBHOOK_URL_INVALID: { status: 400, message: 'webhooks may not be sent to this URL' },
  UNAUTHORIZED: { status: 401, message: 'the request carries no valid key' },
  FORBIDDEN: { status: 403, message: 'the key may not do this' },
  INSUFFICIENT_PERMISSIONS: {
    status: 403,
    message: 'the key lacks the permission that this operation needs',
  },
  NOT_FOUND: { status: 404, message: 'there is no such resource' },
  TENANT_NOT_FOUND: { status: 404, message: 'there is no such tenant' },
  BUDGET_NOT_FOUND: { status: 404, message: 'there is no such budget' },
  EVENT_NOT_FOUND: { status: 404, message: 'there is no such event' },
  WEBHOOK_NOT_FOUND: { status: 404, message: 'there is no such webhook subscription' },
  BUDGET_EXCEEDED: { status: 409, message: 'the remaining budget does not cover the amount' },
  BUDGET_FROZEN: { status: 409, message: 'the budget is frozen' },
  BUDGET_CLOSED: { status: 409, message: 'the budget is closed' },
  OVERDRAFT_LIMIT_EXCEEDED: { status: 409, message: 'the overdraft limit is exceeded' },
  DEBT_OUTSTANDING: { status: 409, message: 'outstanding debt blocks new reservations' },
  RESERVATION_FINALIZED: { status: 409, message: 'the reservation is committed or released already' },
  IDEMPOTENCY_MISMATCH: { status: 409, message: 'the idempotency key was used with a different request' },
  MAX_EXTENSIONS_EXCEEDED: { status: 409, message: 'the reservation cannot be extended any more' },
  TENANT_CLOSED: { status: 409, message: 'the tenant is closed' },
  DUPLICATE_RESOURCE: { status: 409, message: 'the resource exists already' },
  COUNT_MISMATCH: { status: 409, message: 'the filter does not match as many as expected' },
  REPLAY_IN_PROGRESS: { status: 409, message: 'a replay to this subscription is in progress' },
  KEY_REVOKED: { status: 409, message: 'the API key is revoked already' },
  KEY_EXPIRED: { status: 409, message: 'the API key has expired' },
  RESERVATION_EXPIRED: { status: 410, message: 'the reservation has expired' },
  LIMIT_EXCEEDED: { status: 429, message: 'too many requests' },
  INTERNAL_ERROR: { status: 500, message: 'an internal error occurred; the request id finds it in the log' },
};
