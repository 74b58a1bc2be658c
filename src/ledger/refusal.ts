import type { ErrorCode } from './error-codes.js';
import type { TenantLimit } from './tenant-limits.js';

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
