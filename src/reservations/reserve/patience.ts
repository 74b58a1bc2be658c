import type { FastifyReply, FastifyRequest } from 'fastify';
import { onResponseEnd } from '../../http/index.js';
import { Refusal } from '../../ledger/index.js';
import type { Patience } from './waiter.js';

const LONGEST_MS = 30_000;

/**
 * How long the client lets its reserve wait for funds, or undefined if it does not.
 * @throws Refusal INVALID_REQUEST if the header is not a whole number of ms from 0 to 30,000.
 */
export function patienceOf({ headers }: FastifyRequest, reply: FastifyReply): Patience | undefined {
  const value = headers['x-holdfast-wait-ms'];
  if (value === undefined) {
    return undefined;
  }
  const waitMs = typeof value === 'string' && /^\d{1,5}$/.test(value) ? Number(value) : Infinity;
  if (waitMs > LONGEST_MS) {
    throw new Refusal(
      'INVALID_REQUEST',
      `X-Holdfast-Wait-Ms must be a whole number from 0 to ${LONGEST_MS}`,
      {
        field: 'X-Holdfast-Wait-Ms',
      },
    );
  }
  if (waitMs === 0) {
    return undefined;
  }
  const gone = new AbortController();
  onResponseEnd(reply, () => {
    if (!reply.raw.writableFinished) {
      gone.abort();
    }
  });
  return { waitMs, gone: gone.signal, waitedMs: 0 };
}
