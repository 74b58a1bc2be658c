import { Redis } from 'ioredis';
import {
  ADMIN_API_KEY,
  expectStatus,
  Holdfast,
  newKey,
  type Answer,
  type TestTenant,
} from '../../support/holdfast.js';
import { OpenApiExamples, type ServedDocument } from '../../support/openapi-examples.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import type { Settings } from '../../support/settings.js';
import { generateEvidenceKeys } from '../../../src/config/evidence-keys.js';
import { AuditedRequests } from '../../../src/audit/audit-log/audited-requests.js';
import { budgetKey, reservationKey, tenantKey, ttlIndexKey } from '../../../src/redis/keyspace.js';

/** A request that succeeds unchanged. The failures that all operations have in common are derived from it. */
export interface Sample {
  readonly method: string;
  readonly path: string;
  readonly body?: Record<string, unknown>;
  /** The tenant whose key is sent; if missing, the admin key is sent. */
  readonly tenant?: TestTenant;
}

/** A single partition, so that all records of the service can be damaged and repaired as a whole. */
const TAG = '{p00}';
/** In TOKENS, at the root of each tenant: the budget of the document's examples. */
export const ALLOCATED = 1_000_000;

/**
 * Copies every record to database 1 and damages it. Each key becomes a stream, because some operations would
 * accept a string or a hash; a stream becomes a string. Reservations stay hashes with a damaged amount: one
 * of another type would not count as a reservation and give 404, while a damaged one goes into quarantine,
 * which needs the logs.
 */
const DAMAGE = `
  for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do
    redis.call('COPY', key, key, 'DB', 1)
    if string.sub(key, 1, #ARGV[1] + 2) == ARGV[1] .. 'r:' then
      redis.call('HSET', key, 'am', 'damaged')
    else
      local kind = redis.call('TYPE', key).ok
      redis.call('DEL', key)
      if kind == 'stream' then
        redis.call('SET', key, 'damaged')
      else
        redis.call('XADD', key, '*', 'damaged', '1')
      end
    end
  end`;
/** Restores the records from database 1. */
const MEND = `
  for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do
    redis.call('DEL', key)
  end
  redis.call('SELECT', 1)
  for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do
    redis.call('MOVE', key, 0)
  end`;

/** A service with its own Redis, and ways to bring its tenants, budgets and reservations into every state. */
export class World {
  private constructor(
    readonly holdfast: Holdfast,
    private readonly server: RedisServer,
    private readonly redis: Redis,
    private readonly settings: Settings,
    private readonly examples: OpenApiExamples,
  ) {}

  static async start(): Promise<World> {
    const server = await startRedis();
    const settings = {
      REDIS_URL: server.url,
      PARTITIONS: '1',
      rateLimitPublicPerMinute: 0,
      // Longer than it takes to notice that the store is unavailable.
      queryQueueMs: 30_000,
      EVIDENCE_SERVER_ID: 'https://cycles.example.com/v1',
      EVIDENCE_KEYS: generateEvidenceKeys(0),
    };
    const holdfast = await Holdfast.start(settings);
    const { text } = await holdfast.call('GET', '/openapi.json');
    const examples = new OpenApiExamples(JSON.parse(text) as ServedDocument);
    return new World(holdfast, server, new Redis(server.url), settings, examples);
  }

  async stop(): Promise<void> {
    this.redis.disconnect();
    await this.holdfast.stop();
    await this.server.stop();
  }

  send({ method, path, body, tenant }: Sample, holdfast = this.holdfast): Promise<Answer> {
    return holdfast.call(method, path, {
      body,
      ...(tenant === undefined ? { headers: { 'x-admin-api-key': ADMIN_API_KEY } } : { key: tenant.key }),
    });
  }

  /**
   * The example of an operation in the served document, for this tenant instead of acme and with a new
   * idempotency key. `of` is the id in its path.
   */
  example(
    id: string,
    tenant: TestTenant,
    { of = '', more = {} }: { of?: string; more?: Record<string, unknown> } = {},
  ): Sample {
    const example = this.examples.request(id, () => of);
    const { path, body } = JSON.parse(
      JSON.stringify(example).replaceAll('acme', tenant.id),
    ) as typeof example;
    const key = body?.['idempotency_key'] === undefined ? {} : { idempotency_key: newKey() };
    return {
      method: example.method,
      path,
      tenant,
      ...(body === undefined ? {} : { body: { ...body, ...key, ...more } }),
    };
  }

  /** The same, with the admin key. */
  adminExample(...example: Parameters<World['example']>): Sample {
    const { method, path, body } = this.example(...example);
    return { method, path, ...(body === undefined ? {} : { body }) };
  }

  /** A tenant with a budget at its root. */
  async tenant(
    budget: Record<string, unknown> = {},
    settings: Record<string, unknown> = {},
  ): Promise<TestTenant> {
    const tenant = await this.holdfast.fundedTenant(ALLOCATED, settings, budget);
    return tenant;
  }

  /** The response of an instance that issues no evidence. */
  async withoutEvidence(request: Sample): Promise<Answer> {
    const { EVIDENCE_SERVER_ID: _, EVIDENCE_KEYS: __, ...settings } = this.settings;
    const silent = await Holdfast.start(settings);
    try {
      return await this.send(request, silent);
    } finally {
      await silent.stop();
    }
  }

  /** Another key of the tenant. Its only permission is one that no operation under test requires. */
  async powerless(tenant: TestTenant): Promise<TestTenant> {
    return {
      ...tenant,
      key: await this.holdfast.createKey(tenant.id, { permissions: ['admin:audit:read'] }),
    };
  }

  async held(
    more: Record<string, unknown> = {},
    settings: Record<string, unknown> = {},
  ): Promise<{ tenant: TestTenant; id: string }> {
    const tenant = await this.tenant({}, settings);
    const id = await this.holdfast.hold(tenant, 10, more);
    return { tenant, id: id };
  }

  async released(): Promise<{ tenant: TestTenant; id: string }> {
    const held = await this.held();
    expectStatus(await this.holdfast.settle(held.tenant, 'release', held.id), 200);
    return held;
  }

  /** A hold whose lease and grace have ended, by the server's own clock. */
  async expired(): Promise<{ tenant: TestTenant; id: string }> {
    const held = await this.held({ grace_period_ms: 0 });
    const [seconds] = await this.redis.time();
    const passed = (Number(seconds) - 60) * 1000;
    await this.redis.hset(reservationKey(TAG, held.id), 'ex', passed);
    await this.redis.zadd(ttlIndexKey(TAG), passed, held.id);
    return held;
  }

  async setTenant(tenant: TestTenant, fields: Record<string, string>): Promise<TestTenant> {
    await this.redis.hset(tenantKey(TAG, tenant.id), fields);
    return tenant;
  }

  /** Changes the stored root budget of the tenant. */
  async setBudget(tenant: TestTenant, fields: Record<string, string>): Promise<TestTenant> {
    await this.redis.hset(budgetKey(TAG, 'TOKENS', `tenant:${tenant.id}`), fields);
    return tenant;
  }

  /**
   * While `work` runs, every key of the service has a type that no operation can read, and every reservation
   * has a damaged amount.
   */
  async whileDamaged<T>(work: () => Promise<T>): Promise<T> {
    // Rows of the audit log are written after the response.
    const audited = this.holdfast.app.get(AuditedRequests);
    await audited.settled();
    await this.redis.eval(DAMAGE, 0, TAG);
    try {
      return await work();
    } finally {
      await audited.settled();
      await this.redis.eval(MEND, 0, TAG);
    }
  }

  /** While `work` runs, the store keeps its connections open but does not reply. */
  async whileStoreIsAway<T>(work: () => Promise<T>): Promise<T> {
    this.server.pause();
    try {
      return await work();
    } finally {
      this.server.resume();
    }
  }

  /** The response to the second of two requests, from an instance that allows one of them per minute. */
  async whileThrottled(
    request: () => Sample,
    limit: Settings = { RATE_LIMIT_PER_KEY_PER_MINUTE: '1' },
  ): Promise<Answer> {
    const throttled = await Holdfast.start({ ...this.settings, ...limit });
    try {
      expectStatus(await this.send(request(), throttled), 200);
      return await this.send(request(), throttled);
    } finally {
      await throttled.stop();
    }
  }
}

export const tokens = (amount: number): Record<string, unknown> => ({ unit: 'TOKENS', amount });
export { newKey };
