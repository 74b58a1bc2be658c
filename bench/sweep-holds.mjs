// Holds that end when the benchmark wants them to, made by the reserve script itself, and what the event log tells of their end.
import { Redis } from 'ioredis';
import {
  eventLogKey,
  idempotencyKey,
  partitionCode,
  partitionOfTenant,
  reservationKey,
  tagOf,
  tenantKey,
  ttlIndexKey,
} from '../dist/redis/keyspace.js';
import { ScriptRegistry } from '../dist/redis/scripts.js';

const PARTITIONS = 64;
const BATCH = 200;
const PAGE = 5000;
const IDEMPOTENCY_TTL_MS = 86_400_000;
const RETENTION_MS = 30 * 86_400_000;
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736-01';

export class Holds {
  number = 0;

  /** @param tenants what `provision` returned for each */
  constructor(socket, tenants, run) {
    this.redis = new Redis({ path: socket, maxRetriesPerRequest: 1 });
    this.redis.on('error', () => undefined);
    this.scripts = new ScriptRegistry(this.redis);
    this.tenants = tenants.map((one) => ({
      ...one,
      tag: tagOf(partitionCode(partitionOfTenant(one.tenant, PARTITIONS))),
    }));
    this.run = run;
  }

  close() {
    this.redis.disconnect();
  }

  /** Makes `count` holds that end at `endsAt` (the machine's clock, which is Redis' too) or `ttlMs` after they were made. */
  async make(count, { endsAt, ttlMs, graceMs = 0, tenants = this.tenants }) {
    for (let made = 0; made < count; made += BATCH) {
      const size = Math.min(BATCH, count - made);
      const calls = Array.from({ length: size }, () =>
        this.call(tenants, ttlMs ?? Math.max(1, endsAt - Date.now()), graceMs),
      );
      const replies = await this.scripts.runMany('reserve', calls);
      const failed = replies.find((reply) => reply instanceof Error || reply[0] !== 'ALLOW');
      if (failed !== undefined) {
        throw new Error(`a hold was not made: ${failed}`);
      }
    }
  }

  call(tenants, ttlMs, graceMs) {
    const { tenant, tag, scopes, keyId } = tenants[this.number % tenants.length];
    const text = String(this.number++).padStart(8, '0');
    const [id, key] = [`rsv_${tag.slice(2, 4)}${this.run}${text}`, `${this.run}-0000-4000-8000-0000${text}`];
    return {
      keys: [reservationKey(tag, id), idempotencyKey.reserve(tag, tenant, key), tenantKey(tag, tenant)],
      args: [
        tenant,
        id,
        text.padStart(22, 'f'),
        'TOKENS',
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
        scopes.length,
        ...scopes,
        'ws',
        'prod',
        'ag',
        'summarizer',
        'ak',
        'llm',
        'an',
        'gpt',
        'ik',
        key,
      ],
    };
  }

  /** Gives all holds that were made for a tenant one deadline. No client can: their deadlines are some milliseconds apart. */
  async shareDeadline({ tenant }, endsAt) {
    const { tag } = this.tenants.find((one) => one.tenant === tenant);
    const ids = await this.redis.zrange(ttlIndexKey(tag), 0, -1);
    for (let from = 0; from < ids.length; from += BATCH) {
      const pipeline = this.redis.pipeline();
      for (const id of ids.slice(from, from + BATCH)) {
        pipeline.hset(reservationKey(tag, id), 'ex', endsAt).zadd(ttlIndexKey(tag), 'XX', endsAt, id);
      }
      await pipeline.exec();
    }
  }

  /** Where the event logs end now, for `expiredSince`. */
  async mark() {
    const ends = await Promise.all(
      this.tenants.map(({ tag }) => this.redis.xrevrange(eventLogKey(tag), '+', '-', 'COUNT', 1)),
    );
    return new Map(this.tenants.map(({ tag }, index) => [tag, ends[index][0]?.[0] ?? '-']));
  }

  /** Deadline and end of every hold that expired since, ms. */
  async expiredSince(mark) {
    const found = [];
    for (const [tag, end] of mark) {
      let from = end === '-' ? '-' : `(${end}`;
      for (;;) {
        const entries = await this.redis.xrange(eventLogKey(tag), from, '+', 'COUNT', PAGE);
        for (const [, flat] of entries) {
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
        from = `(${entries.at(-1)[0]}`;
      }
    }
    return found;
  }
}

/** How late holds were given back, ms. A negative figure is one that was given back too early. */
export function latenessOf(expired) {
  const sorted = expired.map(({ deadline, at }) => at - deadline).sort((a, b) => a - b);
  const at = (share) => sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)];
  return { count: sorted.length, min_ms: sorted[0], p50_ms: at(0.5), p99_ms: at(0.99), max_ms: at(1) };
}
