// What queries cost a Redis with many reservations of one tenant: the CPU time of Redis for requests over
// HTTP.
import { randomFrom, seedFrom } from '../scripts/seed.mjs';
import { parseJson } from '../scripts/install.mjs';
import { keyspace } from './built.mjs';
import { mainThreadSeconds } from './cpu.mjs';
import { adminHeaders } from './service.mjs';

const random = randomFrom(seedFrom('GROWTH_SEED', 'growth of queries'));

/** @typedef {import('./growth-ledger.mjs').GrowthLedger} GrowthLedger */

/** The service refuses to sort more. */
const MOST_SORTED = 1_000_000;

/**
 * @param {GrowthLedger} ledger
 * @param {string} path
 * @param {Readonly<Record<string, string>>} headers
 */
async function get({ service }, path, headers) {
  const response = await fetch(`http://127.0.0.1:${service.port}${path}`, { headers });
  const text = await response.text();
  if (response.status !== 200) {
    throw new Error(`${path}: ${response.status} ${text}`);
  }
  return /** @type {Record<string, unknown>} */ (parseJson(text));
}

/**
 * µs of each of `count` requests, one after the other.
 * @param {GrowthLedger} ledger
 * @param {number} count
 * @param {() => Promise<unknown>} request
 */
async function costOf(ledger, count, request) {
  const before = await mainThreadSeconds(ledger.redis);
  for (let made = 0; made < count; made += 1) {
    await request();
  }
  return (((await mainThreadSeconds(ledger.redis)) - before) * 1e6) / count;
}

/**
 * µs of each request; for `verify` and a sorted list, which read all records, µs per record. NaN for a sorted list of too many records.
 * @param {import('./growth-ledger.mjs').Population} population of one tenant
 * @param {string} apiKey
 * @param {number} count of requests of each kind
 */
export async function queryCosts(population, apiKey, count) {
  const { ledger, live, members } = population;
  const [member] = members;
  if (member === undefined) {
    throw new Error('a population needs a tenant');
  }
  const { tag, tenant } = member;
  const records = await ledger.redis.zcard(keyspace.reservationIndexKey(tag, tenant));
  const tenantHeaders = { 'X-Cycles-API-Key': apiKey };
  const list = await costOf(ledger, count, () => get(ledger, '/v1/reservations?limit=50', tenantHeaders));
  const sorted =
    records > MOST_SORTED
      ? NaN
      : await costOf(ledger, 1, () =>
          get(ledger, '/v1/reservations?limit=50&sort_by=reserved', tenantHeaders),
        );
  const history = await costOf(ledger, count, () => {
    const hold = live[Math.floor(random() * live.length)];
    return get(ledger, `/ops/reservations/${hold === undefined ? '' : ledger.idOf(hold)}`, adminHeaders);
  });
  const verify = await costOf(ledger, 1, () => verifyAll(ledger, tenant));
  return { records, list, sorted: sorted / records, history, verify: verify / records };
}

/**
 * @param {GrowthLedger} ledger
 * @param {string} tenant
 */
async function verifyAll(ledger, tenant) {
  let cursor = '';
  do {
    const query = new URLSearchParams({ tenant, cursor });
    const page = await get(ledger, `/ops/verify?${query.toString()}`, adminHeaders);
    cursor = typeof page.next_cursor === 'string' ? page.next_cursor : '';
  } while (cursor !== '');
}
