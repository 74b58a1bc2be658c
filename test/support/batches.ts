import {
  type Answer,
  expectStatus,
  type HoldfastClient,
  type Json,
  newKey,
  type TestTenant,
} from './holdfast.js';

/** One operation, as a member of a batch. */
export interface Operation {
  readonly op: string;
  readonly reservation_id?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

type Caller = Pick<TestTenant, 'key'>;
type More = Record<string, unknown>;

const ACTION = { kind: 'llm.completion', name: 'test-model' };
const tokens = (amount: number | bigint): object => ({ unit: 'TOKENS', amount });

export const reserveOf = (tenant: TestTenant, amount: number | bigint, more: More = {}): Operation => ({
  op: 'reserve',
  body: {
    idempotency_key: newKey(),
    subject: { tenant: tenant.id },
    action: ACTION,
    estimate: tokens(amount),
    ...more,
  },
});

/** What it costs if it expires. */
export const chargeOnExpiry = (amount: number): Pick<Operation, 'headers'> => ({
  headers: { 'X-Holdfast-Charge-On-Expiry': String(amount) },
});

export const eventOf = (tenant: TestTenant, amount: number | bigint, more: More = {}): Operation => ({
  op: 'event',
  body: {
    idempotency_key: newKey(),
    subject: { tenant: tenant.id },
    action: ACTION,
    actual: tokens(amount),
    ...more,
  },
});

export const commitOf = (id: string, amount: number | bigint, more: More = {}): Operation => ({
  op: 'commit',
  reservation_id: id,
  body: { idempotency_key: newKey(), actual: tokens(amount), ...more },
});

export const releaseOf = (id: string, more: More = {}): Operation => ({
  op: 'release',
  reservation_id: id,
  body: { idempotency_key: newKey(), ...more },
});

export const extendOf = (id: string, more: More = {}): Operation => ({
  op: 'extend',
  reservation_id: id,
  body: { idempotency_key: newKey(), extend_by_ms: 60_000, ...more },
});

export function sendBatch(
  holdfast: HoldfastClient,
  { key }: Caller,
  operations: readonly Operation[],
  headers: Record<string, string> = {},
): Promise<Answer> {
  return holdfast.call('POST', '/v1/batch', { key, headers, body: { operations } });
}

/** The results of a batch that was accepted as a whole. */
export async function resultsOf(...sent: Parameters<typeof sendBatch>): Promise<Json[]> {
  return expectStatus(await sendBatch(...sent), 200).results as Json[];
}

/** Sends an operation as a request of its own. */
export function sendAlone(
  holdfast: HoldfastClient,
  { key }: Caller,
  { op, reservation_id: id = '', body }: Operation,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const paths: Record<string, string> = { reserve: '/v1/reservations', event: '/v1/events' };
  const path = paths[op] ?? `/v1/reservations/${id}/${op}`;
  return holdfast.call('POST', path, { key, headers, body });
}
