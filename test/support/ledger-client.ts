import { createHash, randomBytes } from 'node:crypto';
import type { Unit } from '../../src/ledger/amount.js';
import { deriveScopes, type SubjectLevels, subjectText, treeOrder } from '../../src/ledger/scopes.js';
import {
  budgetIndexKey,
  budgetKey,
  cleanupIndexKey,
  idempotencyKey,
  reservationKey,
  tenantKey,
  ttlIndexKey,
} from '../../src/redis/keyspace.js';
import type { Reply, ScriptRegistry } from '../../src/redis/scripts.js';
import { CheckedScripts } from './checked-scripts.js';
import { holdFields, keyField } from './hold-record.js';
import { serverTimeMs } from './server-time.js';
import type { StoreClient } from './store.js';

export const IDEMPOTENCY_TTL_MS = 86_400_000;
export const RETENTION_MS = 30 * 86_400_000;
export const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736-01';
export const DEFAULT_UNIT: Unit = 'TOKENS';

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

export type Amount = bigint | number | string;

export interface BudgetOptions {
  readonly scope?: string;
  readonly unit?: Unit;
  readonly allocated?: Amount;
  readonly spent?: Amount;
  readonly reserved?: Amount;
  readonly debt?: Amount;
  readonly overdraftLimit?: Amount;
  readonly isOverLimit?: boolean;
  readonly status?: string;
  readonly policy?: string;
}

export interface ReserveOptions {
  readonly tenant?: string;
  readonly id?: string;
  readonly key?: string;
  readonly subject?: SubjectLevels;
  readonly unit?: string;
  readonly amount?: Amount;
  readonly policy?: string;
  readonly ttlMs?: number | '';
  readonly graceMs?: number;
  readonly dryRun?: boolean;
  readonly idempotencyTtlMs?: number;
  readonly fields?: Readonly<Record<string, string>>;
  readonly by?: string;
  /** A limit of the deployment; 0, the default here, means no limit. */
  readonly maxLive?: number;
  readonly maxStored?: number;
  readonly maxBudgets?: number;
  /** As lua/ledger/lib/observe.lua describes it. */
  readonly observe?: string;
  /** In the form that lua/ledger/lib/waiters.lua takes. */
  readonly waiter?: string;
  /** For quotas: see lua/ledger/lib/action_quota.lua. */
  readonly facts?: string;
}

export interface SettleOptions {
  readonly tenant?: string;
  readonly key?: string;
  readonly fingerprint?: string;
  readonly by?: string;
  readonly idempotencyTtlMs?: number;
}

export interface CleanupOptions {
  readonly tenant?: string;
  readonly overdueForMs?: number;
  readonly walkedMs?: string;
  readonly walkedId?: string;
  readonly examine?: number;
  readonly limit?: number;
  readonly dryRun?: boolean;
  readonly reason?: string;
}

export interface Hold {
  readonly id: string;
  readonly key: string;
  readonly expiresAt: number;
}

export function randomText(length: number): string {
  return [...randomBytes(length)].map((byte) => BASE62[byte % 62]).join('');
}

function fingerprintOf(payload: unknown): string {
  return createHash('sha256').update(JSON.stringify(payload)).digest('base64url').slice(0, 12);
}

/**
 * A hash tag that no other test uses on this server. It stands in for a partition's tag but is never a real
 * one, so this test cannot reclaim another test's due holds.
 */
async function uniqueTag(redis: StoreClient): Promise<string> {
  const count = await redis.incr('{test}tags');
  const digits = [Math.floor(count / 62 ** 2), Math.floor(count / 62) % 62, count % 62].map(
    (digit) => BASE62[digit],
  );
  if (digits[0] === undefined || digits[0] === 'p') {
    throw new Error('this server has no test tags left');
  }
  return `{${digits.join('')}}`;
}

/** Calls the scripts directly, as the services call them. Each instance has its own partition and tenant. */
export class LedgerClient {
  constructor(
    readonly redis: StoreClient,
    readonly tag: string,
    readonly tenant: string,
    readonly scripts: ScriptRegistry = new CheckedScripts(redis),
  ) {}

  static async make(redis: StoreClient): Promise<LedgerClient> {
    return new LedgerClient(redis, await uniqueTag(redis), `acme-${randomText(8).toLowerCase()}`);
  }

  /** The same partition and tenant over another connection. */
  over(redis: StoreClient, scripts?: ScriptRegistry): LedgerClient {
    return new LedgerClient(redis, this.tag, this.tenant, scripts);
  }

  newId(): string {
    return `rsv_${this.tag.slice(2, 4)}${randomText(16)}`;
  }

  scope(subject: SubjectLevels = {}, tenant = this.tenant): string {
    return deriveScopes(subject, tenant).at(-1) as string;
  }

  budgetKeyOf(scope: string = this.scope(), unit: string = DEFAULT_UNIT): string {
    return budgetKey(this.tag, unit, scope);
  }

  reservationKeyOf(id: string): string {
    return reservationKey(this.tag, id);
  }

  async makeTenant(fields: Record<string, string> = {}, tenant = this.tenant): Promise<void> {
    await this.redis.hset(tenantKey(this.tag, tenant), { status: 'ACTIVE', name: tenant, ...fields });
  }

  async makeBudget(options: BudgetOptions = {}): Promise<string> {
    const {
      scope = this.scope(),
      unit = DEFAULT_UNIT,
      allocated = 1000,
      spent = 0,
      reserved = 0,
      debt = 0,
    } = options;
    const remaining = BigInt(allocated) - BigInt(spent) - BigInt(reserved) - BigInt(debt);
    const tenant = scope.split('/')[0]?.slice('tenant:'.length) as string;
    await this.redis.hset(budgetKey(this.tag, unit, scope), {
      remaining: String(remaining),
      reserved: String(reserved),
      spent: String(spent),
      allocated: String(allocated),
      debt: String(debt),
      overdraft_limit: String(options.overdraftLimit ?? 0),
      is_over_limit: options.isOverLimit === true ? '1' : '0',
      status: options.status ?? 'ACTIVE',
      ...(options.policy === undefined ? {} : { commit_overage_policy: options.policy }),
    });
    await this.redis.zadd(budgetIndexKey(this.tag, tenant), 0, treeOrder(`${scope} ${unit}`));
    return scope;
  }

  /**
   * A budget's figures in the order of a balance: remaining, reserved, spent, allocated, debt, overdraft
   * limit, over limit.
   */
  async figures(scope: string = this.scope(), unit: string = DEFAULT_UNIT): Promise<string> {
    const names = ['remaining', 'reserved', 'spent', 'allocated', 'debt', 'overdraft_limit', 'is_over_limit'];
    return (await this.redis.hmget(budgetKey(this.tag, unit, scope), ...names)).join(',');
  }

  async reserve(options: ReserveOptions = {}): Promise<Reply> {
    const {
      tenant = this.tenant,
      subject = {},
      unit = DEFAULT_UNIT,
      amount = 10,
      policy = '',
      fields = {},
    } = options;
    const {
      ttlMs = 600_000,
      graceMs = 5_000,
      dryRun = false,
      id = this.newId(),
      key = randomText(12),
    } = options;
    const scopes = deriveScopes(subject, tenant);
    const record = Object.entries({ ak: 'llm', an: 'gpt', ...keyField(key), ...fields }).flat();
    return this.scripts.run(
      'reserve',
      [
        reservationKey(this.tag, id),
        idempotencyKey.reserve(this.tag, tenant, key),
        tenantKey(this.tag, tenant),
      ],
      [
        fingerprintOf([scopes, unit, String(amount), policy, ttlMs, graceMs, dryRun, fields]),
        subjectText(subject, tenant, unit),
        String(amount),
        [policy, ttlMs, dryRun ? 1 : '', graceMs].join('|'),
        [
          options.idempotencyTtlMs ?? IDEMPOTENCY_TTL_MS,
          RETENTION_MS,
          options.maxLive ?? 0,
          options.maxStored ?? 0,
          options.maxBudgets ?? 0,
        ].join('|'),
        options.by ?? 'key_1',
        'req_reserve',
        TRACE,
        options.facts ?? 'side_effect||||',
        options.observe ?? '',
        options.waiter ?? '',
        ...record,
      ],
    );
  }

  /** A reserve as the service runs it: repeated while overdue holds have to be reclaimed first. */
  async reserveToTheEnd(options: ReserveOptions = {}): Promise<Reply> {
    const settled = { ...options, key: options.key ?? randomText(12) };
    let reply = await this.reserve(settled);
    while (reply[0] === 'RECLAIMED') {
      reply = await this.reserve(settled);
    }
    return reply;
  }

  /** Creates a hold and fails if the script refuses it. */
  async hold(options: ReserveOptions = {}): Promise<Hold> {
    const key = options.key ?? randomText(12);
    const reply = await this.reserve({ ...options, key });
    if (reply[0] !== 'ALLOW' || reply[1] !== 'fresh') {
      throw new Error(`the hold was not created: ${reply.join(' ')}`);
    }
    return { id: reply[2] as string, key, expiresAt: Number(reply[3]) };
  }

  async commit(
    id: string,
    actual: Amount,
    options: SettleOptions & { unit?: string; metadata?: string; metrics?: string } = {},
  ): Promise<Reply> {
    const {
      tenant = this.tenant,
      key = randomText(12),
      unit = DEFAULT_UNIT,
      metadata = '',
      metrics = '',
      by = 'key_1',
    } = options;
    return this.scripts.run(
      'commit',
      [reservationKey(this.tag, id), idempotencyKey.commit(this.tag, tenant, id, key)],
      [
        tenant,
        id,
        options.fingerprint ?? fingerprintOf([unit, String(actual), metadata]),
        unit,
        String(actual),
        metadata,
        metrics,
        options.idempotencyTtlMs ?? IDEMPOTENCY_TTL_MS,
        RETENTION_MS,
        by,
        'req_commit',
        TRACE,
      ],
    );
  }

  async release(id: string, options: SettleOptions & { reason?: string } = {}): Promise<Reply> {
    const { tenant = this.tenant, key = randomText(12), reason = '', by = 'key_1' } = options;
    return this.scripts.run(
      'release',
      [reservationKey(this.tag, id), idempotencyKey.release(this.tag, tenant, id, key)],
      [
        tenant,
        id,
        options.fingerprint ?? fingerprintOf([reason]),
        reason,
        options.idempotencyTtlMs ?? IDEMPOTENCY_TTL_MS,
        RETENTION_MS,
        by,
        'req_release',
        TRACE,
      ],
    );
  }

  /** Of a reservation or of a direct debit. */
  async refund(
    id: string,
    amount: number | string,
    options: SettleOptions & { reason?: string; metadata?: string; unit?: string } = {},
  ): Promise<Reply> {
    const { tenant = this.tenant, key = randomText(12), by = 'key_1', unit = 'TOKENS' } = options;
    const { reason = '', metadata = '' } = options;
    return this.scripts.run(
      'refund',
      [idempotencyKey.refund(this.tag, tenant, id, key)],
      [
        tenant,
        id,
        options.fingerprint ?? fingerprintOf([amount, unit, reason]),
        unit,
        amount,
        reason,
        metadata,
        options.idempotencyTtlMs ?? IDEMPOTENCY_TTL_MS,
        RETENTION_MS,
        by,
        'req_refund',
        TRACE,
      ],
    );
  }

  async extend(id: string, extendByMs: number, options: SettleOptions = {}): Promise<Reply> {
    const { tenant = this.tenant, key = randomText(12), by = 'key_1' } = options;
    return this.scripts.run(
      'extend',
      [reservationKey(this.tag, id), idempotencyKey.extend(this.tag, tenant, id, key)],
      [
        tenant,
        id,
        options.fingerprint ?? fingerprintOf([extendByMs]),
        extendByMs,
        options.idempotencyTtlMs ?? IDEMPOTENCY_TTL_MS,
        RETENTION_MS,
        by,
        'req_extend',
        TRACE,
      ],
    );
  }

  async expire(id: string): Promise<Reply> {
    return this.scripts.run('expire', [reservationKey(this.tag, id)], [id, RETENTION_MS, TRACE]);
  }

  async expirePage(ids: readonly string[]): Promise<Reply> {
    return this.scripts.run('expire_page', [ttlIndexKey(this.tag)], [RETENTION_MS, TRACE, ...ids]);
  }

  /** One run of an operator's cleanup. An empty `tenant` means all tenants. */
  async cleanup(options: CleanupOptions = {}): Promise<Reply> {
    const {
      tenant = this.tenant,
      overdueForMs = 0,
      walkedMs = '',
      walkedId = '',
      examine = 200,
      limit = 20,
      dryRun = false,
      reason = '',
    } = options;
    return this.scripts.run(
      'cleanup_reservations',
      [cleanupIndexKey(this.tag)],
      [
        tenant,
        overdueForMs,
        walkedMs,
        walkedId,
        examine,
        limit,
        dryRun ? '1' : '0',
        reason,
        RETENTION_MS,
        'req_cleanup',
        TRACE,
        '',
      ],
    );
  }

  async get(id: string, tenant = this.tenant): Promise<Reply> {
    return this.scripts.run(
      'get_reservation',
      [reservationKey(this.tag, id)],
      [tenant, id, RETENTION_MS, 'req_get', TRACE],
    );
  }

  async record(id: string): Promise<Record<string, string>> {
    return holdFields(await this.redis.hgetall(reservationKey(this.tag, id)));
  }

  async ttlScore(id: string): Promise<string | null> {
    return this.redis.zscore(ttlIndexKey(this.tag), id);
  }

  async cleanupScore(id: string): Promise<string | null> {
    return this.redis.zscore(cleanupIndexKey(this.tag), id);
  }

  /** The index of deadlines that has the hold while it is live. */
  async deadlineIndexKey(id: string): Promise<string> {
    const manual = (await this.redis.hget(reservationKey(this.tag, id), 'xp')) === 'm';
    return manual ? cleanupIndexKey(this.tag) : ttlIndexKey(this.tag);
  }

  /** The server's clock in whole milliseconds, by which the scripts decide. */
  serverTime(): Promise<number> {
    return serverTimeMs(this.redis);
  }

  /** Moves a hold's stored expiry, in the record and in the index, so that no test has to sleep. */
  async setExpiry(id: string, expiresAt: number): Promise<void> {
    const key = reservationKey(this.tag, id);
    const grace = Number(await this.redis.hget(key, 'gr'));
    await this.redis
      .multi()
      .hset(key, 'ex', expiresAt)
      .zadd(await this.deadlineIndexKey(id), expiresAt + grace, id)
      .exec();
  }

  /** Moves a hold past its reclaim deadline, so that it can no longer be settled. Returns the deadline. */
  async makeOverdue(id: string, byMs = 60_000): Promise<number> {
    const grace = Number(await this.redis.hget(reservationKey(this.tag, id), 'gr'));
    const deadline = (await this.serverTime()) - byMs;
    await this.setExpiry(id, deadline - grace);
    return deadline;
  }

  /** Moves a hold into its grace: its lease has ended, and its reclaim deadline is ten minutes away. */
  async putInGrace(id: string): Promise<void> {
    await this.redis.hset(reservationKey(this.tag, id), 'gr', 660_000);
    await this.setExpiry(id, (await this.serverTime()) - 60_000);
  }
}
