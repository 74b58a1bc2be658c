/**
 * A refusal that the caller caused and can act on. Services throw it, and the HTTP filter maps its code to a status through the
 * error catalogue. Every other error is a defect or an outage.
 */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  /** When and in which trace a script refused, if the refusal can be attested. */
  stamp?: string;
  /** The reference to its evidence, once it is issued. */
  evidence?: object;
  /** Seconds until a repetition can succeed, if that is known. */
  retryAfterS?: number | undefined;

  constructor(
    readonly code: ErrorCode,
    message: string,
    public details?: Record<string, unknown>,
  ) {
    super(message);
  }
}

/** A value of a request that is not allowed, and the field that has it. */
export function invalidField(field: string, message: string): Refusal {
  return new Refusal('INVALID_REQUEST', message, { field });
}

/** The code, the message and the details of a refusal. */
export type Refused = ConstructorParameters<typeof Refusal>;

/** What stays as it is when its tenant is closed. */
export function tenantClosed(what: string): Refused {
  return ['TENANT_CLOSED', `the tenant is closed; its ${what} can no longer change`];
}

/** What each word of some scripts refuses. A word that is not in the table is a defect. */
export function refusalIn(refusals: Readonly<Record<string, Refused>>, word: string, script: string): Error {
  const refused = refusals[word];
  return refused === undefined ? new Error(`${script} answered ${word}`) : new Refusal(...refused);
}

/** The body is compressed or otherwise encoded. HTTP has a status for that (RFC 9110, section 15.5.16), and the protocol no code. */
export class EncodedBody extends Refusal {
  constructor(encoding: string) {
    super(
      'INVALID_REQUEST',
      `the Content-Encoding ${JSON.stringify(encoding)} is not supported; send the body as it is`,
      { field: 'Content-Encoding' },
    );
  }
}

/**
 * The filter of a bulk action matches more rows than one action may change. The protocol uses LIMIT_EXCEEDED here too, but with
 * status 400, because waiting does not help.
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
 * The tenant owns as much as it may. Live reservations and stored bytes decrease over time, so the answer is 429 with the seconds
 * to wait. For the other limits waiting does not help, and the answer is 400.
 */
export class TenantLimitExceeded extends Refusal {
  constructor(
    limit: TenantLimit,
    allowed: number,
    used: number,
    override readonly retryAfterS?: number,
  ) {
    // A request can need several at once.
    const how = used < allowed ? 'leaves fewer than the request needs' : 'is reached';
    super('LIMIT_EXCEEDED', `the tenant's limit on ${limit} ${how}: ${used} of ${allowed} are in use`, {
      limit,
      allowed,
      used,
    });
  }
}

/** Too many requests of the caller are running, or came lately. This one was not started and can be retried. */
export class TooBusy extends Refusal {
  constructor(
    what: string,
    override readonly retryAfterS: number,
    details?: Record<string, unknown>,
  ) {
    super('LIMIT_EXCEEDED', `${what}; retry in ${retryAfterS} s`, details);
  }
}

/** What runs queries on files is not installed (501), or a query ended before it had an answer (503). The protocol has no code for it. */
export class QueryUnavailable extends Refusal {
  constructor(
    readonly status: 501 | 503,
    message: string,
    reason: string,
  ) {
    super('INTERNAL_ERROR', message, { reason });
  }
}

/** The closed `ErrorCode` list of cycles-protocol-v0, which is also that of evidence. */
export const PROTOCOL_ERROR_CODES = [
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

/** All codes of the runtime plane, those of its extensions v0.1.26 included. */
export const RUNTIME_ERROR_CODES = [
  ...PROTOCOL_ERROR_CODES,
  'ACTION_QUOTA_EXCEEDED',
  'ACTION_KIND_NOT_ALLOWED',
  'ACTION_KIND_DENIED',
] as const;

/** What the governance plane adds (cycles-governance-admin-v0.1.25). */
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

/** What is limited per tenant. `stored_bytes` is an estimate; docs/administration.md has its formula. */
export const TENANT_LIMITS = [
  'live_reservations',
  'budgets',
  'policies',
  'api_keys',
  'webhooks',
  'stored_bytes',
] as const;
export type TenantLimit = (typeof TENANT_LIMITS)[number];
