// One operation, in both its forms: the HTTP requests of a client, and the script calls that the service
// makes of them. Every text has a fixed length, so everything but the numbers is built once.
import { groupOf, keyspace, LIBRARY, subjectText } from './built.mjs';

const { idempotencyKey, partitionCode, partitionOfTenant, reservationKey, tagOf, tenantKey } = keyspace;

const PARTITIONS = 64;
const ESTIMATE = 1000;
const ACTUAL = 800;
const TTL_MS = 60_000;
const GRACE_MS = 5000;
const IDEMPOTENCY_TTL_MS = 86_400_000;
const RETENTION_MS = 30 * 86_400_000;
const POLICY = 'ALLOW_IF_AVAILABLE';
const SUBJECT = { workspace: 'prod', agent: 'summarizer' };
/** What quotas would need to know about the action: lua/ledger/lib/action_quota.lua. */
export const ACTION_FACTS = 'side_effect||||';
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736-01';

/**
 * Idempotency keys of the length that clients send: a UUID's.
 * @param {string} run
 * @param {number} number
 */
const keyOf = (run, number) => `${run}-0000-4000-8000-${String(number).padStart(12, '0')}`;

/**
 * The two HTTP requests of an operation.
 * @param {import('./types.ts').Target} target
 * @param {{ ttlMs: number, graceMs: number }} lease
 */
export function httpRequests(
  { tenant, apiKey, run },
  { ttlMs, graceMs } = { ttlMs: TTL_MS, graceMs: GRACE_MS },
) {
  const placeholder = keyOf(run, 0);
  const body = JSON.stringify({
    idempotency_key: placeholder,
    subject: { tenant, ...SUBJECT },
    action: { kind: 'llm.completion', name: 'gpt-4o' },
    estimate: { unit: 'TOKENS', amount: ESTIMATE },
    ttl_ms: ttlMs,
    grace_period_ms: graceMs,
    overage_policy: POLICY,
  });
  const commitBody = JSON.stringify({
    idempotency_key: placeholder,
    actual: { unit: 'TOKENS', amount: ACTUAL },
  });
  const head = (/** @type {string} */ path, /** @type {string} */ text) =>
    `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nX-Cycles-API-Key: ${apiKey}\r\nContent-Length: ${text.length}\r\n\r\n`;
  const [reserveStart, reserveEnd] = (head('/v1/reservations', body) + body).split(placeholder);
  const [commitStart, commitMiddle, commitEnd] = (
    head('/v1/reservations/RESERVATION/commit', commitBody) + commitBody
  ).split(new RegExp(`RESERVATION|${placeholder}`));
  return {
    reserve: (/** @type {number} */ number) => `${reserveStart}${keyOf(run, number)}${reserveEnd}`,
    commit: (/** @type {number} */ number, /** @type {string} */ reservationId) =>
      `${commitStart}${reservationId}${commitMiddle}${keyOf(run, number)}${commitEnd}`,
  };
}

/** @param {(string | number)[]} words */
function resp(words) {
  return `*${words.length}\r\n${words.map((word) => `$${Buffer.byteLength(String(word))}\r\n${word}\r\n`).join('')}`;
}

/**
 * @param {string} name of the function
 * @param {string[]} keys
 * @param {(string | number)[]} args
 */
function groupOfOne(name, keys, args) {
  const group = groupOf([{ keys, args }]);
  return resp(['FCALL', name, group.keys.length, ...group.keys, ...group.args]);
}

/**
 * The two script calls of an operation as the bytes that Redis reads, with the arguments that the service gives.
 * @param {import('./types.ts').Target} target
 */
export function scriptCalls({ tenant, keyId, run }) {
  const [reserveFunction, commitFunction] = [functionOf('reserve'), functionOf('commit')];
  const tag = tagOf(partitionCode(partitionOfTenant(tenant, PARTITIONS)));
  const idOf = (/** @type {number} */ number) =>
    `rsv_${tag.slice(2, 4)}${run}${String(number).padStart(8, '0')}`;
  const fingerprintOf = (/** @type {number} */ number) => String(number).padStart(22, 'f');
  const requestOf = (/** @type {number} */ number) => `req_${String(number).padStart(22, 'q')}`;
  const reserve = (/** @type {number} */ number) => {
    const [id, key] = [idOf(number), keyOf(run, number)];
    const uuid = Buffer.from(key.replaceAll('-', ''), 'hex').toString('base64url');
    const fields = ['ak', 'llm.completion', 'an', 'gpt-4o', 'iu', uuid];
    const keys = [reservationKey(tag, id), idempotencyKey.reserve(tag, tenant, key), tenantKey(tag, tenant)];
    return groupOfOne(reserveFunction, keys, [
      id,
      fingerprintOf(number),
      subjectText(SUBJECT, tenant, 'TOKENS'),
      ESTIMATE,
      POLICY,
      TTL_MS,
      GRACE_MS,
      0,
      IDEMPOTENCY_TTL_MS,
      RETENTION_MS,
      keyId,
      requestOf(number),
      TRACE,
      1_000_000,
      68_719_476_736,
      ACTION_FACTS,
      '',
      '',
      ...fields,
    ]);
  };
  const commit = (/** @type {number} */ number) => {
    const [id, key] = [idOf(number), keyOf(run, number)];
    const keys = [reservationKey(tag, id), idempotencyKey.commit(tag, tenant, id, key)];
    return groupOfOne(commitFunction, keys, [
      tenant,
      id,
      fingerprintOf(number),
      'TOKENS',
      ACTUAL,
      '',
      IDEMPOTENCY_TTL_MS,
      RETENTION_MS,
      keyId,
      requestOf(number),
      TRACE,
    ]);
  };
  const keysOf = (/** @type {number} */ number) => [
    reservationKey(tag, idOf(number)),
    idempotencyKey.reserve(tag, tenant, keyOf(run, number)),
  ];
  return { tag, reserve, commit, keysOf };
}

/** @param {string} script */
function functionOf(script) {
  const found = LIBRARY.scripts.get(script);
  if (found === undefined) {
    throw new Error(`there is no script ${script}`);
  }
  return found.functionName;
}
