// The memory in Redis of a reservation with three budgeted scopes: while it is live, after it has ended, and
// after its idempotency records have lapsed as well. The service's own janitor packs the ended records. The
// requests are real, with ids as clients send them.
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { parseJson } from '../scripts/install.mjs';
import { keyspace } from './built.mjs';
import { Client } from './client.mjs';
import { usedMemory } from './cpu.mjs';
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
 * @typedef {{ name: string, record: number, idempotency: number, listIndex: number, ttlIndex: number, total: number }} Row  bytes of one reservation
 */

/** More than 128, so that the indexes have the encoding of large sorted sets. */
const COUNT = unlessShort(3000, 300);
const CONNECTIONS = 32;
const TARGET_BYTES = 400;
const PACK_TIMEOUT_MS = 60_000;
const SHORTEST_TTL_MS = 1000;

export const measure = () =>
  Harness.with({}, async (harness) => new AuditBytes(harness, await harness.target()).result());

class AuditBytes {
  /**
   * @param {Harness} harness
   * @param {import('./types.ts').Target} target
   */
  constructor(harness, target) {
    this.redis = harness.redis;
    this.target = target;
    this.tag = tagOfTenant(target.tenant);
    const headers = { 'x-cycles-api-key': target.apiKey };
    const client = new Client(harness.service.port, { connections: CONNECTIONS, headers });
    this.client = harness.use(client, (one) => one.close());
  }

  async result() {
    /** @type {Row[]} */
    const rows = [];
    const live = await this.make({ ttl_ms: 600_000 });
    rows.push(await this.measure('live', live));
    await this.end(live, (hold) => [
      'commit',
      { idempotency_key: hold.endKey, actual: { unit: 'TOKENS', amount: 800 } },
    ]);
    await this.packed();
    rows.push(await this.measure('committed', live));
    await this.lapse(live);
    rows.push(await this.measure('committed, its idempotency records lapsed', live));
    // Excludes the first ones, which include the memory of scripts, connections and growing hash tables.
    const start = await usedMemory(this.redis);
    const released = await this.make({ ttl_ms: 600_000 });
    await this.end(released, (hold) => ['release', { idempotency_key: hold.endKey, reason: 'not needed' }]);
    await this.packed();
    await this.lapse(released);
    const growth = ((await usedMemory(this.redis)) - start) / COUNT;
    rows.push(await this.measure('released, its idempotency records lapsed', released));
    const expired = await this.make({ ttl_ms: SHORTEST_TTL_MS, grace_period_ms: 0 });
    await this.packed(SHORTEST_TTL_MS);
    await this.lapse(expired);
    rows.push(await this.measure('expired, its idempotency records lapsed', expired));
    return resultOf(rows, growth, await this.eventBytes(), await storeOf(this.redis));
  }

  /**
   * Reservations over HTTP, with UUIDs as keys, as most clients send them.
   * @param {{ ttl_ms: number, grace_period_ms?: number }} lease
   */
  async make(lease) {
    const { tenant } = this.target;
    /** @type {Hold[]} */
    const holds = Array.from({ length: COUNT }, () => ({ key: randomUUID(), endKey: randomUUID(), id: '' }));
    await this.each(holds, async (hold) => {
      const answer = await this.post('/v1/reservations', {
        idempotency_key: hold.key,
        subject: { tenant, workspace: 'prod', agent: 'summarizer' },
        action: { kind: 'llm.completion', name: 'gpt-4o' },
        estimate: { unit: 'TOKENS', amount: 1000 },
        ...lease,
      });
      hold.id = String(answer.reservation_id);
    });
    return holds;
  }

  /**
   * @param {Hold[]} holds
   * @param {(hold: Hold) => [verb: Verb, body: object]} request
   */
  async end(holds, request) {
    await this.each(holds, async (hold) => {
      const [verb, body] = request(hold);
      await this.post(`/v1/reservations/${hold.id}/${verb}`, body);
      hold.verb = verb;
    });
  }

  /**
   * @param {Hold[]} items
   * @param {(hold: Hold) => Promise<void>} work
   */
  async each(items, work) {
    const left = [...items];
    await Promise.all(
      Array.from({ length: CONNECTIONS }, async () => {
        for (let item = left.pop(); item !== undefined; item = left.pop()) {
          await work(item);
        }
      }),
    );
  }

  /**
   * @param {string} path
   * @param {object} body
   */
  async post(path, body) {
    const { status, text } = await this.client.post(path, body);
    if (status !== 200) {
      throw new Error(`${path}: ${status} ${text}`);
    }
    return /** @type {Record<string, unknown>} */ (parseJson(text));
  }

  /** Waits until nothing is live and nothing waits to be packed. */
  async packed(afterMs = 0) {
    await delay(afterMs);
    const isPacked = async () => {
      const [entries, kept, live] = await Promise.all([
        this.redis.xlen(journalKey(this.tag)),
        this.redis.hget(journalPlacesKey(this.tag), 'kept'),
        this.redis.zcard(ttlIndexKey(this.tag)),
      ]);
      // Packed ones wait for the archiver.
      return entries - Number(kept ?? 0) + live === 0;
    };
    await until(isPacked, PACK_TIMEOUT_MS, 'the janitor did not pack everything');
  }

  /** @param {Hold} hold */
  idempotencyKeys({ id, key, endKey, verb }) {
    const { tenant } = this.target;
    return [
      idempotencyKey.reserve(this.tag, tenant, key),
      ...(verb === undefined ? [] : [idempotencyKey[verb](this.tag, tenant, id, endKey)]),
    ];
  }

  /**
   * Removes what would expire a day later.
   * @param {Hold[]} holds
   */
  async lapse(holds) {
    const pipeline = this.redis.pipeline();
    holds.forEach((hold) => pipeline.del(...this.idempotencyKeys(hold)));
    await pipeline.exec();
  }

  /**
   * @param {string} name
   * @param {Hold[]} holds
   * @returns {Promise<Row>}
   */
  async measure(name, holds) {
    const usage = async (/** @type {(hold: Hold) => string[]} */ keysOf) => {
      const pipeline = this.redis.pipeline();
      holds.flatMap(keysOf).forEach((key) => pipeline.memory('USAGE', key));
      const sizes = ((await pipeline.exec()) ?? []).map(([, bytes]) => Number(bytes ?? 0));
      return sizes.reduce((sum, bytes) => sum + bytes, 0) / holds.length;
    };
    const share = async (/** @type {string} */ index) =>
      Number((await this.redis.memory('USAGE', index, 'SAMPLES', 0)) ?? 0) /
      Math.max(1, await this.redis.zcard(index));
    const record = await usage(({ id }) => [reservationKey(this.tag, id)]);
    const idempotency = await usage((hold) => this.idempotencyKeys(hold));
    const listIndex = await share(reservationIndexKey(this.tag, this.target.tenant));
    const ttlIndex = await share(ttlIndexKey(this.tag));
    return {
      name,
      record,
      idempotency,
      listIndex,
      ttlIndex,
      total: record + idempotency + listIndex + ttlIndex,
    };
  }

  async eventBytes() {
    const length = await this.redis.xlen(eventLogKey(this.tag));
    return Number(await this.redis.memory('USAGE', eventLogKey(this.tag), 'SAMPLES', 0)) / length;
  }
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
    command: 'npm run bench -- audit-bytes',
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
