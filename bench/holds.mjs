// Holds that end when the benchmark wants, created by the reserve script itself, and what the event log says
// about their end.
import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { ScriptRegistry, keyspace } from './built.mjs';
import { spreadOf } from './report.mjs';
import { reserveCall, reserveTerms, tagOfTenant } from './workload.mjs';

const { eventLogKey, reservationKey, ttlIndexKey } = keyspace;

/**
 * @typedef {import('./types.ts').Tenant} Tenant
 * @typedef {import('./types.ts').Place} Place
 * @typedef {{ deadline: number, at: number }} Expired  ms since 1970
 */

const BATCH = 200;
const PAGE = 5000;

export class Holds {
  number = 0;

  /**
   * @param {string} socket of Redis
   * @param {readonly Tenant[]} tenants
   */
  constructor(socket, tenants) {
    this.redis = new Redis({ path: socket, maxRetriesPerRequest: 1 });
    this.redis.on('error', () => undefined);
    this.scripts = new ScriptRegistry(this.redis);
    const run = randomBytes(4).toString('hex');
    /** @type {Place[]} */
    this.places = tenants.map((one) => ({ ...one, run, tag: tagOfTenant(one.tenant) }));
  }

  close() {
    this.redis.disconnect();
  }

  /**
   * Creates `count` holds that end at `endsAt` (by the machine's clock, which is also Redis') or `ttlMs` after their creation.
   * @param {number} count
   * @param {({ endsAt: number } | { ttlMs: number }) & { graceMs?: number, places?: Place[] }} how
   */
  async make(count, { graceMs = 0, places = this.places, ...until }) {
    for (let made = 0; made < count; made += BATCH) {
      const calls = Array.from({ length: Math.min(BATCH, count - made) }, () => {
        const number = this.number++;
        const ttlMs = 'ttlMs' in until ? until.ttlMs : Math.max(1, until.endsAt - Date.now());
        const place = /** @type {Place} */ (places[number % places.length]);
        return reserveCall(place, number, {
          amount: '10',
          terms: reserveTerms({ policy: '', ttlMs, graceMs }),
        });
      });
      const replies = await this.scripts.callMany('reserve', calls);
      const failed = replies.find((reply) => reply instanceof Error || reply.status !== 'ALLOW');
      if (failed !== undefined) {
        throw new Error(`a hold was not made: ${failed instanceof Error ? failed.message : failed.status}`);
      }
    }
  }

  /**
   * Creates holds at a steady pace.
   * @param {{ perSecond: number, seconds: number, ttlMs: number }} plan
   */
  async pace({ perSecond, seconds, ttlMs }) {
    const steps = Math.min(50, perSecond);
    const began = performance.now();
    for (let step = 1; step <= seconds * steps; step += 1) {
      await this.make(perSecond / steps, { ttlMs });
      await delay(Math.max(0, began + (step * 1000) / steps - performance.now()));
    }
  }

  /**
   * Gives all holds of a tenant the same deadline. No client can do that: their deadlines are a few milliseconds apart.
   * @param {Tenant} owner
   * @param {number} endsAt
   */
  async shareDeadline({ tenant }, endsAt) {
    const tag = tagOfTenant(tenant);
    const ids = await this.redis.zrange(ttlIndexKey(tag), '0', '-1');
    for (let from = 0; from < ids.length; from += BATCH) {
      const pipeline = this.redis.pipeline();
      for (const id of ids.slice(from, from + BATCH)) {
        pipeline.hset(reservationKey(tag, id), 'ex', endsAt).zadd(ttlIndexKey(tag), 'XX', endsAt, id);
      }
      await pipeline.exec();
    }
  }

  /** The current ends of the event logs, for `expiredSince`. */
  async mark() {
    const ends = await Promise.all(
      this.places.map(({ tag }) => this.redis.xrevrange(eventLogKey(tag), '+', '-', 'COUNT', 1)),
    );
    return new Map(this.places.map(({ tag }, index) => [tag, ends[index]?.[0]?.[0] ?? '-']));
  }

  /**
   * Every hold that expired since.
   * @param {Map<string, string>} mark
   */
  async expiredSince(mark) {
    /** @type {Expired[]} */
    const found = [];
    for (const [tag, end] of mark) {
      let from = end === '-' ? '-' : `(${end}`;
      for (;;) {
        const entries = await this.redis.xrange(eventLogKey(tag), from, '+', 'COUNT', PAGE);
        for (const [, flat] of entries) {
          /** @type {Record<string, string | undefined>} */
          const event = Object.fromEntries(
            flat.flatMap((name, index) => (index % 2 === 0 ? [[name, flat[index + 1]]] : [])),
          );
          if (event.ty === 'reservation.expired') {
            found.push({
              deadline: Number(event.created_at) + Number(event.ttl_ms),
              at: Number(event.expired_at),
            });
          }
        }
        if (entries.length < PAGE) {
          break;
        }
        from = `(${entries.at(-1)?.[0]}`;
      }
    }
    return found;
  }
}

/**
 * How late holds were returned. A negative figure means too early.
 * @param {readonly Expired[]} expired
 */
export const latenessOf = (expired) => spreadOf(expired.map(({ deadline, at }) => at - deadline));

/**
 * Closes them when `use` has ended, however it ends: an open connection would keep the benchmark from ending.
 * @param {string} socket of Redis
 * @param {readonly Tenant[]} tenants
 * @param {(holds: Holds) => Promise<unknown>} use
 */
export async function withHolds(socket, tenants, use) {
  const holds = new Holds(socket, tenants);
  try {
    await use(holds);
  } finally {
    holds.close();
  }
}
