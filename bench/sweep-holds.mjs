// Holds that end when the benchmark wants, created by the reserve script itself, and what the event log says
// about their end.
import { Redis } from 'ioredis';
import { ScriptRegistry, keyspace, subjectText } from './built.mjs';
import { quantile } from './report.mjs';
import { ACTION_FACTS } from './workload.mjs';

const {
  eventLogKey,
  idempotencyKey,
  partitionCode,
  partitionOfTenant,
  reservationKey,
  tagOf,
  tenantKey,
  ttlIndexKey,
} = keyspace;

/**
 * @typedef {import('./types.ts').Tenant} Tenant
 * @typedef {Tenant & { tag: string }} Holder
 * @typedef {{ deadline: number, at: number }} Expired  ms since 1970
 */

const PARTITIONS = 64;
const BATCH = 200;
const PAGE = 5000;
const IDEMPOTENCY_TTL_MS = 86_400_000;
const RETENTION_MS = 30 * 86_400_000;
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736-01';

export class Holds {
  number = 0;

  /**
   * @param {string} socket of Redis
   * @param {readonly Tenant[]} tenants
   * @param {string} run eight characters that set the holds' ids apart
   */
  constructor(socket, tenants, run) {
    this.redis = new Redis({ path: socket, maxRetriesPerRequest: 1 });
    this.redis.on('error', () => undefined);
    this.scripts = new ScriptRegistry(this.redis);
    /** @type {Holder[]} */
    this.tenants = tenants.map((one) => ({
      ...one,
      tag: tagOf(partitionCode(partitionOfTenant(one.tenant, PARTITIONS))),
    }));
    this.run = run;
  }

  close() {
    this.redis.disconnect();
  }

  /**
   * Creates `count` holds that end at `endsAt` (by the machine's clock, which is also Redis') or `ttlMs` after their creation.
   * @param {number} count
   * @param {({ endsAt: number } | { ttlMs: number }) & { graceMs?: number, tenants?: Holder[] }} how
   */
  async make(count, { graceMs = 0, tenants = this.tenants, ...until }) {
    for (let made = 0; made < count; made += BATCH) {
      const size = Math.min(BATCH, count - made);
      const calls = Array.from({ length: size }, () =>
        this.call(tenants, 'ttlMs' in until ? until.ttlMs : Math.max(1, until.endsAt - Date.now()), graceMs),
      );
      const replies = await this.scripts.runMany('reserve', calls);
      const failed = replies.find((reply) => reply instanceof Error || reply[0] !== 'ALLOW');
      if (failed !== undefined) {
        throw new Error(`a hold was not made: ${String(failed)}`);
      }
    }
  }

  /**
   * @param {Holder[]} tenants
   * @param {number} ttlMs
   * @param {number} graceMs
   * @returns {import('../src/redis/scripts.ts').ScriptCall<'reserve'>}
   */
  call(tenants, ttlMs, graceMs) {
    const { tenant, tag, keyId } = holderAt(tenants, this.number % tenants.length);
    const text = String(this.number++).padStart(8, '0');
    const [id, key] = [`rsv_${tag.slice(2, 4)}${this.run}${text}`, `${this.run}-0000-4000-8000-0000${text}`];
    return {
      keys: [reservationKey(tag, id), idempotencyKey.reserve(tag, tenant, key), tenantKey(tag, tenant)],
      args: [
        id,
        text.padStart(12, 'f'),
        subjectText({ workspace: 'prod', agent: 'summarizer' }, tenant, 'TOKENS'),
        '10',
        '',
        ttlMs,
        graceMs,
        0,
        IDEMPOTENCY_TTL_MS,
        RETENTION_MS,
        keyId,
        `req_${text}`,
        TRACE,
        1_000_000,
        68_719_476_736,
        ACTION_FACTS,
        '',
        '',
        'ak',
        'llm',
        'an',
        'gpt',
        'ik',
        key,
      ],
    };
  }

  /**
   * Gives all holds of a tenant the same deadline. No client can do that: their deadlines are a few milliseconds apart.
   * @param {Tenant} owner
   * @param {number} endsAt
   */
  async shareDeadline({ tenant }, endsAt) {
    const { tag } = holderAt(
      this.tenants,
      this.tenants.findIndex((one) => one.tenant === tenant),
    );
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
      this.tenants.map(({ tag }) => this.redis.xrevrange(eventLogKey(tag), '+', '-', 'COUNT', 1)),
    );
    return new Map(this.tenants.map(({ tag }, index) => [tag, ends[index]?.[0]?.[0] ?? '-']));
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
 * @param {Holder[]} tenants
 * @param {number} index
 */
function holderAt(tenants, index) {
  const holder = tenants[index];
  if (holder === undefined) {
    throw new Error(`there is no tenant ${index}`);
  }
  return holder;
}

/**
 * How late holds were returned, in ms. A negative figure means too early.
 * @param {Expired[]} expired
 * @returns {import('./types.ts').Lateness}
 */
export function latenessOf(expired) {
  const sorted = expired.map(({ deadline, at }) => at - deadline).sort((a, b) => a - b);
  const [p50_ms, p99_ms, max_ms] = [quantile(sorted, 0.5), quantile(sorted, 0.99), quantile(sorted, 1)];
  return { count: sorted.length, min_ms: sorted[0] ?? NaN, p50_ms, p99_ms, max_ms };
}
