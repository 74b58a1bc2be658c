import type { ErrorCode } from './error-codes.js';

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
