// The memory in Redis of a reservation with three budgeted scopes: while it is live, after it has ended, and
// after its idempotency records have lapsed as well. The service's own janitor packs the ended records. The
// requests are real, with ids as clients send them.
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { parseJson } from '../scripts/install.mjs';
import { keyspace } from './built.mjs';
import { Client, inTurn } from './client.mjs';
import { meanUsage, shareOfIndex, usedMemory } from './cpu.mjs';
import { unlessShort, until } from './duration.mjs';
import { Harness } from './harness.mjs';
import { aim, storeOf, tableOf, whole } from './report.mjs';
import { tagOfTenant } from './workload.mjs';

const {
  eventLogKey,
  idempotencyKey,
  journalKey,
  journalPlacesKey,
  reservationIndexKey,
  reservationKey,
  ttlIndexKey,
} = keyspace;

/**
 * @typedef {'commit' | 'release'} Verb
 * @typedef {{ key: string, endKey: string, id: string, verb?: Verb }} Hold
 * @typedef {{ redis: import('ioredis').Redis, client: Client, tenant: string, tag: string }} World
 * @typedef {Awaited<ReturnType<typeof bytesOf>>} Row  bytes of one reservation
 */

/** More than 128, so that the indexes have the encoding of large sorted sets. */
const COUNT = unlessShort(3000, 300);
const CONNECTIONS = 32;
const TARGET_BYTES = 400;
const PACK_TIMEOUT_MS = 60_000;
const SHORTEST_TTL_MS = 1000;

/** @returns {Promise<import('./types.ts').Measured>} */
export const measure = () =>
  Harness.with({}, async (harness) => {
    const { redis, service } = harness;
    const { tenant, apiKey } = await harness.target();
    const headers = { 'x-cycles-api-key': apiKey };
    const client = new Client(service.port, { connections: CONNECTIONS, headers });
    const world = {
      redis,
      tenant,
      tag: tagOfTenant(tenant),
      client: harness.use(client, (one) => one.close()),
    };
    const rows = [];
    const live = await make(world, { ttl_ms: 600_000 });
    rows.push(await bytesOf(world, 'live', live));
    await end(world, live, 'commit', { actual: { unit: 'TOKENS', amount: 800 } });
    await packed(world);
    rows.push(await bytesOf(world, 'committed', live));
    await lapse(world, live);
    rows.push(await bytesOf(world, 'committed, its idempotency records lapsed', live));
    // Excludes the first ones, which include the memory of scripts, connections and growing hash tables.
    const start = await usedMemory(redis);
    const released = await make(world, { ttl_ms: 600_000 });
    await end(world, released, 'release', { reason: 'not needed' });
    await packed(world);
    await lapse(world, released);
    const growth = ((await usedMemory(redis)) - start) / COUNT;
    rows.push(await bytesOf(world, 'released, its idempotency records lapsed', released));
    const expired = await make(world, { ttl_ms: SHORTEST_TTL_MS, grace_period_ms: 0 });
    await delay(SHORTEST_TTL_MS);
    await packed(world);
    await lapse(world, expired);
    rows.push(await bytesOf(world, 'expired, its idempotency records lapsed', expired));
    const events = eventLogKey(world.tag);
    const logBytes = Number(await redis.memory('USAGE', events, 'SAMPLES', 0));
    return resultOf(rows, growth, logBytes / (await redis.xlen(events)), await storeOf(redis));
  });

/**
 * @param {World} world
 * @param {string} path
 * @param {object} body
 */
async function post({ client }, path, body) {
  const { status, text } = await client.post(path, body);
  if (status !== 200) {
    throw new Error(`${path}: ${status} ${text}`);
  }
  return /** @type {Record<string, unknown>} */ (parseJson(text));
}

/**
 * Reservations over HTTP, with UUIDs as keys, as most clients send them.
 * @param {World} world
 * @param {{ ttl_ms: number, grace_period_ms?: number }} lease
 */
async function make(world, lease) {
  /** @type {Hold[]} */
  const holds = Array.from({ length: COUNT }, () => ({ key: randomUUID(), endKey: randomUUID(), id: '' }));
  await inTurn(holds, CONNECTIONS, async (hold) => {
    const answer = await post(world, '/v1/reservations', {
      idempotency_key: hold.key,
      subject: { tenant: world.tenant, workspace: 'prod', agent: 'summarizer' },
      action: { kind: 'llm.completion', name: 'gpt-4o' },
      estimate: { unit: 'TOKENS', amount: 1000 },
      ...lease,
    });
    hold.id = String(answer.reservation_id);
  });
  return holds;
}

/** @type {(world: World, holds: Hold[], verb: Verb, body: object) => Promise<void>} */
const end = (world, holds, verb, body) =>
  inTurn(holds, CONNECTIONS, async (hold) => {
    await post(world, `/v1/reservations/${hold.id}/${verb}`, { idempotency_key: hold.endKey, ...body });
    hold.verb = verb;
  });

/**
 * Waits until nothing is live and nothing waits to be packed.
 * @param {World} world
 */
function packed({ redis, tag }) {
  const isPacked = async () => {
    const [entries, kept, live] = await Promise.all([
      redis.xlen(journalKey(tag)),
      redis.hget(journalPlacesKey(tag), 'kept'),
      redis.zcard(ttlIndexKey(tag)),
    ]);
    // Packed ones wait for the archiver.
    return entries - Number(kept ?? 0) + live === 0;
  };
  return until(isPacked, PACK_TIMEOUT_MS, 'the janitor did not pack everything');
}

/** @type {(world: World, hold: Hold) => string[]} */
const idempotencyKeys = ({ tenant, tag }, { id, key, endKey, verb }) => [
  idempotencyKey.reserve(tag, tenant, key),
  ...(verb === undefined ? [] : [idempotencyKey[verb](tag, tenant, id, endKey)]),
];

/**
 * Removes what would expire a day later.
 * @param {World} world
 * @param {Hold[]} holds
 */
async function lapse(world, holds) {
  const pipeline = world.redis.pipeline();
  holds.forEach((hold) => pipeline.del(...idempotencyKeys(world, hold)));
  await pipeline.exec();
}

/**
 * @param {World} world
 * @param {string} name
 * @param {Hold[]} holds
 */
async function bytesOf(world, name, holds) {
  const { redis, tag, tenant } = world;
  const records = holds.map(({ id }) => reservationKey(tag, id));
  const keys = holds.flatMap((hold) => idempotencyKeys(world, hold));
  const record = await meanUsage(redis, records);
  const idempotency = (await meanUsage(redis, keys)) * (keys.length / holds.length);
  const listIndex = await shareOfIndex(redis, reservationIndexKey(tag, tenant));
  const ttlIndex = await shareOfIndex(redis, ttlIndexKey(tag));
  return {
    name,
    record,
    idempotency,
    listIndex,
    ttlIndex,
    total: record + idempotency + listIndex + ttlIndex,
  };
}

/**
 * @param {Row[]} rows
 * @param {number} growth
 * @param {number} eventBytes
 * @param {string} store
 * @returns {import('./types.ts').Measured}
 */
function resultOf(rows, growth, eventBytes, store) {
  const unit = ' bytes';
  /** @type {Record<string, (row: Row) => string>} */
  const columns = {
    '': ({ name }) => name,
    record: ({ record }) => whole(record),
    'idempotency records': ({ idempotency }) => whole(idempotency),
    'list index': ({ listIndex }) => whole(listIndex),
    'TTL index': ({ ttlIndex }) => whole(ttlIndex),
    'all-in': ({ total }) => whole(total),
  };
  return {
    title: 'Bytes of a reservation',
    subject: `Bytes of one reservation with three budgeted scopes, by \`MEMORY USAGE\`, ${whole(COUNT)} of each.`,
    store,
    tables: [tableOf(rows, columns, 1)],
    figures: [
      ...rows.slice(2).map(({ name, total }) => aim(name, total, { unit, atMost: TARGET_BYTES })),
      aim('released, by growth of `used_memory`, with its share of the table of expiries', growth, { unit }),
      aim('an entry of the event log', eventBytes, { unit }),
    ],
  };
}
