import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { boundariesAfter, type Recurrence, recurrenceText } from '../../src/governance/budgets/recurrence.js';
import { treeOrder } from '../../src/ledger/scopes.js';
import { auditLogKey, budgetIndexKey, periodIndexKey } from '../../src/redis/keyspace.js';
import { BlackholeProxy } from '../support/blackhole-proxy.js';
import { buildService, type ServiceProcess, startService } from '../support/built-service.js';
import { eventually } from '../support/eventually.js';
import { ADMIN_API_KEY, type Answer, HoldfastClient, newKey, type TestTenant } from '../support/holdfast.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';
import { patience } from '../support/time-limits.js';
import { StoredRecords } from '../support/stored-records.js';

/** Zones of both hemispheres, two of them with local days that do not begin at midnight. */
const ZONES = ['Europe/Berlin', 'America/New_York', 'Australia/Sydney', 'America/Santiago', 'Africa/Cairo'];
const BUDGETS = 10_000;
const EACH = BUDGETS / ZONES.length;
const ALLOCATED = 100;
/** Longer than it takes to make them all. */
const LEAD_MS = patience(5000);
const HOUR_MS = 3_600_000;

let redis: RedisServer;
/** In this process, so that no instance goes on while this process stands still between what it sees and the kill. */
let proxy: BlackholeProxy;
let stored: StoredRecords;
const instances: (ServiceProcess & { readonly url: string })[] = [];

async function start(): Promise<HoldfastClient> {
  const instance = await startService({
    REDIS_URL: proxy.url,
    HOLDFAST_ROLES: 'api,janitor',
    ADMIN_API_KEY,
    WEBHOOK_SECRET_ENCRYPTION_KEY: '5e'.repeat(32),
  });
  instances.push(instance);
  return new HoldfastClient(instance.url);
}

beforeAll(buildService, 120_000);
beforeAll(async () => {
  redis = await startRedis();
  proxy = await BlackholeProxy.before(redis);
  stored = new StoredRecords(redis.url);
});
afterAll(async () => {
  for (const { child, ended } of instances) {
    child.kill('SIGKILL');
    await ended;
  }
  await proxy.close();
  await stored.close();
  await redis.stop();
});

const daily = (timeZone: string): Recurrence => ({
  every: 'day',
  timeZone,
  anchorDay: 1,
  anchorMonth: 1,
  anchorHour: 0,
  lengthHours: 1,
});

/**
 * The ends of three days around each of a zone's two clock changes in 2027: the day before, the long or short
 * day, and the next.
 */
function changesOf(timeZone: string): number[][] {
  const days = boundariesAfter(daily(timeZone), Date.UTC(2026, 11, 31, 12), 366);
  const found = days.flatMap((day, index) => {
    const [before, after] = [days[index - 1], days[index + 1]];
    return before !== undefined && after !== undefined && (day - before) % (24 * HOUR_MS) !== 0
      ? [[before, day, after]]
      : [];
  });
  expect(found.map(([before = 0, day = 0]) => (day - before) / HOUR_MS).sort()).toEqual([23, 25]);
  return found;
}

/**
 * Budgets whose day ends at this instant. In half of them that day is the zone's shortest, in the other half
 * the longest.
 */
async function makeBudgets(tenant: TestTenant, timeZone: string, end: number): Promise<Map<string, number>> {
  const [tag, changes] = [stored.tagOf(tenant.id), changesOf(timeZone)];
  const rule = recurrenceText(daily(timeZone));
  const pipeline = stored.redis.pipeline();
  const nextEnds = new Map<string, number>();
  for (let number = 0; number < EACH; number += 1) {
    const [before = 0, day = 0, after = 0] = changes[number % 2] as number[];
    const scope = `tenant:${tenant.id}/app:a${number}`;
    nextEnds.set(scope, end + after - day);
    const figures = {
      remaining: ALLOCATED,
      allocated: ALLOCATED,
      reserved: 0,
      spent: 0,
      debt: 0,
      overdraft_limit: 0,
    };
    pipeline.hset(stored.budgetKey(tenant.id, `/app:a${number}`), {
      ...figures,
      status: 'ACTIVE',
      is_over_limit: '0',
      ledger_id: `ldg_${number}`,
      tenant_id: tenant.id,
      created_at: '0',
      updated_at: '0',
      period_start: end + before - day,
      period_end: end,
      period_allocated: ALLOCATED,
      rollover_policy: 'CARRY_FORWARD',
      recurrence: rule,
      boundaries: [end + after - day, end + after - day + 24 * HOUR_MS].join(),
    });
    pipeline.zadd(budgetIndexKey(tag, tenant.id), 0, treeOrder(`${scope} TOKENS`));
    pipeline.zadd(periodIndexKey(tag), end, `${scope} TOKENS`);
  }
  await pipeline.exec();
  return nextEnds;
}

test('10,000 budgets of five zones roll over once each at one instant, at both changes of the clocks, under load while an instance dies, with exact sums', async () => {
  let [victim, survivor] = [await start(), await start()];
  const tenants: TestTenant[] = [];
  for (const _ of ZONES) {
    tenants.push(await survivor.createTenant());
  }
  const end = Date.now() + LEAD_MS;
  const nextEnds = await Promise.all(
    tenants.map((tenant, index) => makeBudgets(tenant, ZONES[index] as string, end)),
  );
  const waiting = async (): Promise<number> => {
    const counts = tenants.map(({ id }) =>
      stored.redis.zcount(periodIndexKey(stored.tagOf(id)), '-inf', end),
    );
    return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
  };
  let [committed, isOver] = [0, false];
  /** The response to a request, which is repeated with the same idempotency key until there is one. */
  const answered = async (tenant: TestTenant, path: string, body: object): Promise<Answer> => {
    for (;;) {
      const at = Math.random() < 0.5 ? victim : survivor;
      const answer = await at.call('POST', path, { key: tenant.key, body }).catch(() => undefined);
      if (answer !== undefined && answer.status < 500) {
        return answer;
      }
    }
  };
  const spend = async (seed: number): Promise<void> => {
    for (let number = seed; !isOver; number += 7) {
      const tenant = tenants[number % tenants.length] as TestTenant;
      const reserved = await answered(tenant, '/v1/reservations', {
        idempotency_key: newKey(),
        subject: { tenant: tenant.id, app: `a${(number * 31) % EACH}` },
        action: { kind: 'llm.completion', name: 'gpt' },
        estimate: { unit: 'TOKENS', amount: 2 },
      });
      const { reservation_id: id } = reserved.body as { reservation_id: string };
      const body = { idempotency_key: newKey(), actual: { unit: 'TOKENS', amount: 1 } };
      const { status } = await answered(tenant, `/v1/reservations/${id}/commit`, body);
      expect([reserved.status, status]).toEqual([200, 200]);
      committed += 1;
    }
  };
  const load = Promise.all([1, 2, 3, 4].map(spend));
  await eventually('some have rolled over', async () => (await waiting()) < BUDGETS);
  instances[0]?.child.kill('SIGKILL');
  const leftAtDeath = await waiting();
  await instances[0]?.ended;
  victim = survivor;
  survivor = await start();
  await eventually('all have rolled over', async () => (await waiting()) === 0);
  isOver = true;
  await load;

  expect(leftAtDeath).toBeGreaterThan(0);
  expect(committed).toBeGreaterThan(0);
  let [spent, remaining, reserved] = [0, 0, 0];
  for (const [index, tenant] of tenants.entries()) {
    const told = (await stored.events(tenant.id)).filter(({ type }) => type === 'budget.reset_spent');
    const rows = (await stored.redis.xrange(auditLogKey(stored.tagOf(tenant.id)), '-', '+')).filter(
      ([, row]) => row.includes('rollOverBudget'),
    );
    expect([told.length, rows.length]).toEqual([EACH, EACH]);
    expect(new Set(told.map(({ fields }) => fields['sc'])).size).toBe(EACH);
    spent += told.reduce((sum, { fields }) => sum + Number(fields['previous_spent']), 0);
    const pipeline = stored.redis.pipeline();
    const expected = [...(nextEnds[index] as Map<string, number>)];
    for (const [scope] of expected) {
      const key = stored.budgetKey(tenant.id, scope.slice(`tenant:${tenant.id}`.length));
      pipeline.hmget(key, 'period_start', 'period_end', 'spent', 'remaining', 'reserved');
    }
    const read = ((await pipeline.exec()) ?? []).map(([, figures]) => (figures as string[]).map(Number));
    expect(read.map(([starts, ends]) => [starts, ends])).toEqual(expected.map(([, ends]) => [end, ends]));
    for (const [, , ...figures] of read) {
      spent += figures[0] as number;
      remaining += figures[1] as number;
      reserved += figures[2] as number;
    }
  }
  expect([spent, reserved]).toEqual([committed, 0]);
  expect(remaining).toBe(2 * ALLOCATED * BUDGETS - committed);
}, 120_000);
