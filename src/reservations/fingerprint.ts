import { Refusal } from '../ledger/index.js';

export { fingerprintOf } from '../ledger/index.js';

/**
 * IDEMPOTENCY of the protocol: a key given as header and in the body must be one and the same.
 * @throws Refusal INVALID_REQUEST when they differ.
 */
export function requireSameKey(header: string | string[] | undefined, idempotencyKey: string): void {
  if (header !== undefined && header !== idempotencyKey) {
    throw new Refusal('INVALID_REQUEST', 'X-Idempotency-Key must equal the idempotency_key of the body', {
      field: 'X-Idempotency-Key',
    });
  }
}
