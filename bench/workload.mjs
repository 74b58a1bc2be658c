// One operation, in both its forms: the HTTP requests of a client, and the script calls that the service
// makes of them. Every text has a fixed length, so everything but the numbers is built once.
import { groupOf, keyspace, LIBRARY, subjectText } from './built.mjs';

const { idempotencyKey, partitionCode, partitionOfTenant, reservationKey, tagOf, tenantKey } = keyspace;

/**
 * @typedef {import('./types.ts').Place} Place
 * @typedef {import('../src/redis/scripts.ts').NamedCall<'reserve'>} ReserveCall
 * @typedef {import('../src/redis/scripts.ts').NamedCall<'commit'>} CommitCall
 */

export const RESERVE_PATH = '/v1/reservations';
const PARTITIONS = 64;
const ESTIMATE = 1000;
const ACTUAL = 800;
const LEASE = { ttlMs: 60_000, graceMs: 5000 };
const IDEMPOTENCY_TTL_MS = 86_400_000;
const RETENTION_MS = 30 * 86_400_000;
const POLICY = 'ALLOW_IF_AVAILABLE';
const ACTION = { kind: 'llm.completion', name: 'gpt-4o' };
const SUBJECT = { workspace: 'prod', agent: 'summarizer' };
/** What quotas would need to know about the action: lua/ledger/lib/action_quota.lua. */
const ACTION_FACTS = 'side_effect||||';
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736-01';

/** @type {(number: number, length?: number, fill?: string) => string} */
const digits = (number, length = 8, fill = '0') => String(number).padStart(length, fill);

/**
 * Idempotency keys of the length that clients send: a UUID's.
 * @param {string} run
 * @param {number} number
 */
const keyOf = (run, number) => `${run}-0000-4000-8000-${digits(number, 12)}`;

/** @param {string} tenant */
export const tagOfTenant = (tenant) => tagOf(partitionCode(partitionOfTenant(tenant, PARTITIONS)));

/**
 * The two HTTP requests of an operation, an extension and a direct debit.
 * @param {import('./types.ts').Target} target
 */
export function httpRequests({ tenant, run }, { ttlMs, graceMs } = LEASE) {
  const placeholder = keyOf(run, 0);
  /** @param {object} body */
  const textWithKey = (body) => {
    const [start, end] = JSON.stringify({ idempotency_key: placeholder, ...body }).split(placeholder);
    return (/** @type {number} */ number) => `${start}${keyOf(run, number)}${end}`;
  };
  return {
    reserve: textWithKey({
      subject: { tenant, ...SUBJECT },
      action: ACTION,
      estimate: { unit: 'TOKENS', amount: ESTIMATE },
      ttl_ms: ttlMs,
      grace_period_ms: graceMs,
      overage_policy: POLICY,
    }),
    commitPath: (/** @type {string} */ reservationId) => `${RESERVE_PATH}/${reservationId}/commit`,
    commit: textWithKey({ actual: { unit: 'TOKENS', amount: ACTUAL } }),
    extend: textWithKey({ extend_by_ms: ttlMs }),
    debit: textWithKey({
      subject: { tenant, ...SUBJECT },
      action: ACTION,
      actual: { unit: 'TOKENS', amount: ACTUAL },
    }),
  };
}

/** @type {(place: Pick<Place, 'tag' | 'run'>, number: number) => string} */
export const reservationIdOf = ({ tag, run }, number) => `rsv_${tag.slice(2, 4)}${run}${digits(number)}`;

/** @type {(place: Place, number: number) => string[]} */
export const keysOfHold = (place, number) => [
  reservationKey(place.tag, reservationIdOf(place, number)),
  idempotencyKey.reserve(place.tag, place.tenant, keyOf(place.run, number)),
];

/** What is stored as the idempotency key: UUIDs in a short form. */
const keyField = (/** @type {string} */ key) => [
  'iu',
  Buffer.from(key.replaceAll('-', ''), 'hex').toString('base64url'),
];

/** As lua/ledger/lib/reserve_terms.lua reads them. */
export const reserveTerms = ({ policy = POLICY, ttlMs = LEASE.ttlMs, graceMs = LEASE.graceMs }) =>
  `${policy}|${ttlMs}||${graceMs}`;

/**
 * The script call of a reserve with this number.
 * @param {Place} place
 * @param {number} number
 * @param {Partial<ReserveCall['args']>} [args] in place of those of an operation over HTTP
 * @returns {ReserveCall}
 */
export function reserveCall(place, number, args = {}) {
  const { tenant, tag, run, keyId } = place;
  const [id, key] = [reservationIdOf(place, number), keyOf(run, number)];
  return {
    keys: {
      reservation: reservationKey(tag, id),
      idempotency: idempotencyKey.reserve(tag, tenant, key),
      tenant: tenantKey(tag, tenant),
    },
    args: {
      fingerprint: digits(number, 22, 'f'),
      subject: subjectText(SUBJECT, tenant, 'TOKENS'),
      amount: String(ESTIMATE),
      terms: reserveTerms({}),
      limits: [IDEMPOTENCY_TTL_MS, RETENTION_MS, 1_000_000, 68_719_476_736, 0].join('|'),
      keyId,
      requestId: `req_${digits(number, 22, 'q')}`,
      trace: TRACE,
      actionFacts: ACTION_FACTS,
      observe: '',
      waiter: '',
      rest: ['ak', 'llm.completion', 'an', 'gpt-4o', ...keyField(key)],
      ...args,
    },
  };
}

/**
 * The script call that settles it.
 * @param {Place} place
 * @param {number} number
 * @returns {CommitCall}
 */
export function commitCall(place, number) {
  const { tenant, tag, run, keyId } = place;
  const id = reservationIdOf(place, number);
  return {
    keys: {
      reservation: reservationKey(tag, id),
      idempotency: idempotencyKey.commit(tag, tenant, id, keyOf(run, number)),
    },
    args: {
      tenantId: tenant,
      reservationId: id,
      fingerprint: digits(number, 22, 'f'),
      unit: 'TOKENS',
      actual: String(ACTUAL),
      metadata: '',
      metrics: '',
      idempotencyTtlMs: IDEMPOTENCY_TTL_MS,
      retentionMs: RETENTION_MS,
      keyId,
      requestId: `req_${digits(number, 22, 'q')}`,
      trace: TRACE,
    },
  };
}

/**
 * The arguments of FCALL for a run with this one call.
 * @template {'reserve' | 'commit'} Name
 * @param {Name} name
 * @param {import('../src/redis/scripts.ts').NamedCall<Name>} call
 * @returns {[name: string, keys: number, ...words: (string | number)[]]}
 */
export function fcallOf(name, { keys, args }) {
  const script = LIBRARY.scripts.get(name);
  if (script === undefined) {
    throw new Error(`there is no script ${name}`);
  }
  const group = groupOf([{ keys: script.keysOf(keys), args: script.argsOf(args) }]);
  const words = /** @type {(string | number)[]} */ ([...group.keys, ...group.args]);
  return [script.functionName, group.keys.length, ...words];
}
