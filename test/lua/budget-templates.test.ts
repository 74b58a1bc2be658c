import { describe, expect, test } from '@jest/globals';
import { treeOrder } from '../../src/ledger/scopes.js';
import {
  bornKey,
  budgetIndexKey,
  budgetTemplateKey,
  eventLogKey,
  periodIndexKey,
  periodPlansKey,
  tenantIndexKey,
  tenantKey,
  waitersKey,
} from '../../src/redis/keyspace.js';
import { debit, decide } from '../support/admission-client.js';
import { clockAt } from '../support/fixed-clock.js';
import { createTenant } from '../support/governance-client.js';
import { type LedgerClient, type ReserveOptions } from '../support/ledger-client.js';
import { assertInvariants, readLedger, snapshot } from '../support/ledger-state.js';
import { reserveSet } from '../support/reservation-sets.js';
import { deleteTemplate, setTemplate, type TemplateOptions } from '../support/template-client.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const DAY_MS = 86_400_000;
/** In the year 2100, far from the server's own clock. */
const NOW = Date.UTC(2100, 0, 1);
const DAYS = Array.from({ length: 9 }, (_, day) => NOW + (day + 1) * DAY_MS);
const at = (agent: string): ReserveOptions => ({ subject: { agent } });

async function withTemplate(options: TemplateOptions = {}): Promise<LedgerClient> {
  const ledger = await newLedger();
  await ledger.makeTenant();
  expect((await setTemplate(ledger, options))[0]).toBe('CREATED');
  return ledger;
}

const figuresAt = async (ledger: LedgerClient, agent: string): Promise<string | undefined> => {
  const scope = ledger.scope({ agent });
  return (await ledger.redis.exists(ledger.budgetKeyOf(scope))) === 1 ? ledger.figures(scope) : undefined;
};
const eventTypes = async (ledger: LedgerClient): Promise<string[]> =>
  (await readLedger(ledger)).events.map(({ fields }) => fields['ty'] as string);
/** What an operation changes, but for the event log and its own idempotency record. */
const changes = async (ledger: LedgerClient, run: () => Promise<unknown>): Promise<string[]> => {
  const before = await snapshot(ledger);
  await run();
  const after = await snapshot(ledger);
  return [...new Set([...before.keys(), ...after.keys()])].filter(
    (key) => before.get(key) !== after.get(key) && !/\}(events$|ev:|i:)/.test(key),
  );
};

describe('a budget that a template makes', () => {
  test('has all that the template sets, and is made by the system', async () => {
    const fields = {
      overdraft_limit: '7',
      commit_overage_policy: 'REJECT',
      metadata: '{"a":1}',
      rollover_policy: 'NONE',
    };
    const ledger = await withTemplate({ fields });
    const { id } = await ledger.hold({ ...at('a'), amount: 20 });
    expect(await ledger.redis.hgetall(ledger.budgetKeyOf(ledger.scope({ agent: 'a' })))).toMatchObject({
      ...fields,
      allocated: '50',
      remaining: '30',
      reserved: '20',
      spent: '0',
      debt: '0',
      is_over_limit: '0',
      status: 'ACTIVE',
      template_id: 'per-agent',
      tenant_id: ledger.tenant,
      ledger_id: expect.stringMatching(/^ldg_[0-9A-Za-z]{18}$/) as unknown,
    });
    const made = (await readLedger(ledger)).events.filter(
      ({ fields: told }) => told['ty'] === 'budget.created',
    );
    expect(made.map(({ fields: told }) => told)).toMatchObject([
      {
        ac: 'system',
        rq: 'req_reserve',
        template_id: 'per-agent',
        new_allocated: '50',
        sc: ledger.scope({ agent: 'a' }),
      },
    ]);
    expect(await ledger.redis.get(bornKey(ledger.tag))).toBe('1');
    expect(await ledger.redis.zcard(budgetIndexKey(ledger.tag, ledger.tenant))).toBe(1);
    // It has the template's policy.
    expect(await ledger.commit(id, 60)).toEqual(['BUDGET_EXCEEDED', ledger.scope({ agent: 'a' })]);
    await assertInvariants(ledger);
  });

  test('is shared by the calls of a run, those that are granted and those that are not', async () => {
    const ledger = await withTemplate();
    const replies = await Promise.all(
      [51, 30, 30, 20, 1].map((amount) => ledger.reserve({ ...at('a'), amount })),
    );
    expect(replies.map(([word]) => word)).toEqual([
      'BUDGET_EXCEEDED',
      'ALLOW',
      'BUDGET_EXCEEDED',
      'ALLOW',
      'BUDGET_EXCEEDED',
    ]);
    expect(await figuresAt(ledger, 'a')).toBe('0,50,0,50,0,0,0');
    expect((await eventTypes(ledger)).filter((type) => type === 'budget.created')).toHaveLength(1);
    await assertInvariants(ledger);
  });

  test('crosses thresholds and is exhausted like any other', async () => {
    const ledger = await withTemplate();
    await ledger.reserve({ ...at('a'), amount: 50 });
    const told = await eventTypes(ledger);
    expect(told.filter((type) => type.startsWith('budget.')).sort()).toEqual([
      'budget.created',
      'budget.exhausted',
      ...Array.from({ length: 3 }, () => 'budget.threshold_crossed'),
    ]);
    expect(told.indexOf('budget.created')).toBeLessThan(told.indexOf('budget.exhausted'));
  });

  test('may be drawn into debt by the debit that makes it', async () => {
    const ledger = await withTemplate({ fields: { overdraft_limit: '10' } });
    const reply = await debit(ledger, { ...at('a'), amount: 57, policy: 'ALLOW_WITH_OVERDRAFT' });
    expect(reply.slice(0, 1)).toEqual(['APPLIED']);
    expect(await figuresAt(ledger, 'a')).toBe('-7,0,50,50,7,10,0');
    expect((await debit(ledger, { ...at('b'), amount: 61, policy: 'ALLOW_WITH_OVERDRAFT' }))[0]).toBe(
      'OVERDRAFT_LIMIT_EXCEEDED',
    );
    expect((await debit(ledger, { ...at('b'), amount: 51, policy: 'REJECT' }))[0]).toBe('BUDGET_EXCEEDED');
    expect(await figuresAt(ledger, 'b')).toBeUndefined();
    await assertInvariants(ledger);
  });
});

describe('nothing is made by', () => {
  test.each<[string, (ledger: LedgerClient) => Promise<string[]>, string]>([
    ['a reserve of too much', (ledger) => ledger.reserve({ ...at('a'), amount: 51 }), 'BUDGET_EXCEEDED'],
    [
      'a debit of too much',
      (ledger) => debit(ledger, { ...at('a'), amount: 51, policy: 'REJECT' }),
      'BUDGET_EXCEEDED',
    ],
    ['a decision', (ledger) => decide(ledger, { ...at('a'), amount: 50 }), 'ALLOW'],
    ['a decision against it', (ledger) => decide(ledger, { ...at('a'), amount: 51 }), 'DENY'],
    ['a dry run', (ledger) => ledger.reserve({ ...at('a'), amount: 50, dryRun: true }), 'ALLOW_DRY_RUN'],
    [
      'observe mode',
      (ledger) => ledger.reserve({ ...at('a'), amount: 50, observe: 'OBSERVE' }),
      'ALLOW_DRY_RUN',
    ],
    ['a unit without a template', (ledger) => ledger.reserve({ ...at('a'), unit: 'CREDITS' }), 'NOT_FOUND'],
    ['other levels', (ledger) => ledger.reserve({ subject: { workspace: 'w', agent: 'a' } }), 'NOT_FOUND'],
  ])('%s', async (_, run, word) => {
    const ledger = await withTemplate();
    let reply: string[] = [];
    expect(await changes(ledger, async () => (reply = await run(ledger)))).toEqual([]);
    expect(reply[0]).toBe(word);
    expect(await eventTypes(ledger)).not.toContain('budget.created');
  });

  test('a reserve that is refused by a budget above, or by another limit', async () => {
    const ledger = await withTemplate();
    await ledger.makeBudget({ allocated: 10 });
    expect((await ledger.reserve({ ...at('a'), amount: 11 }))[1]).toBe(ledger.scope());
    await ledger.hold({ amount: 1 });
    expect((await ledger.reserve({ ...at('a'), amount: 1, maxLive: 1 }))[0]).toBe('LIMIT_EXCEEDED');
    expect(await figuresAt(ledger, 'a')).toBeUndefined();
  });

  test('a set of which one is refused, also by the limit on budgets', async () => {
    const ledger = await withTemplate();
    const set = (...members: ReserveOptions[]): Promise<unknown> => reserveSet(ledger, members);
    expect(await changes(ledger, () => set({ ...at('a'), amount: 26 }, { ...at('a'), amount: 25 }))).toEqual(
      [],
    );
    const limited = { maxBudgets: 1, amount: 1 };
    expect(await changes(ledger, () => set({ ...at('a'), ...limited }, { ...at('b'), ...limited }))).toEqual(
      [],
    );
    const { refused } = await reserveSet(
      ledger,
      [at('a'), at('a'), at('b')].map((place) => ({ ...place, amount: 25, maxBudgets: 2 })),
    );
    expect(refused).toBeUndefined();
    expect(await figuresAt(ledger, 'a')).toBe('0,50,0,50,0,0,0');
    await assertInvariants(ledger);
  });

  test.each<[string, (ledger: LedgerClient) => string]>([
    ['the index of budgets', (ledger) => budgetIndexKey(ledger.tag, ledger.tenant)],
    ['the index of periods', (ledger) => periodIndexKey(ledger.tag)],
    ['the plans', (ledger) => periodPlansKey(ledger.tag)],
    ['the event log', (ledger) => eventLogKey(ledger.tag)],
  ])('a request that finds %s damaged', async (_, keyOf) => {
    const ledger = await withTemplate();
    await ledger.redis.del(keyOf(ledger));
    await ledger.redis.set(keyOf(ledger), 'damaged');
    expect(
      await changes(ledger, async () => {
        await expect(ledger.reserve({ ...at('a'), amount: 1 })).rejects.toThrow('WRONGTYPE');
        await expect(debit(ledger, { ...at('a'), amount: 1 })).rejects.toThrow('WRONGTYPE');
      }),
    ).toEqual([]);
  });
});

describe('the limit on budgets', () => {
  test('counts each budget that a request would make', async () => {
    const ledger = await withTemplate();
    await setTemplate(ledger, { id: 'root', pattern: '' });
    const refusal = (used: string): string[] => ['LIMIT_EXCEEDED', 'budgets', '2', used];
    const other = treeOrder(`${ledger.scope({ workspace: 'w' })} TOKENS`);
    await ledger.redis.zadd(budgetIndexKey(ledger.tag, ledger.tenant), 0, other);
    expect(await ledger.reserve({ ...at('a'), maxBudgets: 2 })).toEqual(refusal('1'));
    expect(await debit(ledger, { ...at('a'), maxBudgets: 2 })).toEqual(refusal('1'));
    expect((await decide(ledger, { ...at('a'), maxBudgets: 2 })).slice(0, 3)).toEqual([
      'DENY',
      'fresh',
      'LIMIT_EXCEEDED',
    ]);
    expect((await ledger.reserve({ ...at('a'), maxBudgets: 3 }))[0]).toBe('ALLOW');
    expect((await ledger.reserve({ ...at('a'), maxBudgets: 2 }))[0]).toBe('ALLOW');
  });

  test('holds within a run', async () => {
    const ledger = await withTemplate();
    const replies = await Promise.all(
      ['a', 'b', 'c', 'a'].map((agent) => ledger.reserve({ ...at(agent), amount: 1, maxBudgets: 2 })),
    );
    expect(replies.map(([word]) => word)).toEqual(['ALLOW', 'ALLOW', 'LIMIT_EXCEEDED', 'ALLOW']);
  });
});

describe('which template makes a budget', () => {
  test('is decided by the longest literal prefix, and among equals by age', async () => {
    const ledger = await withTemplate({ id: 'open', pattern: '/app:*/agent:*', allocated: 10 });
    await setTemplate(ledger, { id: 'second', pattern: '/app:x/agent:*', allocated: 30 });
    await setTemplate(ledger, { id: 'third', pattern: '/app:x/agent:*', allocated: 20 });
    const remaining = async (app: string, agent: string): Promise<string | undefined> =>
      (await ledger.reserve({ subject: { app, agent }, amount: 1 }))[7]?.split(',')[3];
    expect(await remaining('y', 'a')).toBe('10');
    expect(await remaining('x', 'a')).toBe('30');
    // The kept choice of a scope does not outlive a change.
    expect((await decide(ledger, { subject: { app: 'x', agent: 'b' }, amount: 25 }))[0]).toBe('ALLOW');
    expect((await deleteTemplate(ledger, 'second'))[0]).toBe('DELETED');
    expect((await decide(ledger, { subject: { app: 'x', agent: 'b' }, amount: 25 }))[0]).toBe('DENY');
    expect((await decide(ledger, { subject: { app: 'x', agent: 'b' }, amount: 20 }))[0]).toBe('ALLOW');
    await deleteTemplate(ledger, 'third');
    expect(await remaining('x', 'b')).toBe('10');
    await deleteTemplate(ledger, 'open');
    expect((await ledger.reserve({ subject: { app: 'x', agent: 'c' } }))[0]).toBe('NOT_FOUND');
    expect(await ledger.redis.hget(tenantKey(ledger.tag, ledger.tenant), 'templates')).toBeNull();
  });

  test('is known again when the record of the tenant is made anew', async () => {
    const ledger = await withTemplate();
    await ledger.redis.del(tenantKey(ledger.tag, ledger.tenant), tenantIndexKey(ledger.tag));
    expect((await ledger.reserve(at('a')))[0]).toBe('NOT_FOUND');
    expect((await createTenant(ledger))[0]).toBe('CREATED');
    expect((await ledger.reserve(at('a')))[0]).toBe('ALLOW');
  });
});

describe('periods and windows', () => {
  const fields = {
    recurrence: 'rule',
    rollover_policy: 'NONE',
    window_limits: 'day,20',
    window_rules: 'rule of day',
  };

  test('begin with the budget, at boundaries after now', async () => {
    const ledger = await withTemplate({ fields, boundaries: DAYS, windowPlans: [DAYS] });
    const late = clockAt(ledger, (DAYS[2] as number) + 5);
    expect((await late.reserve({ ...at('a'), amount: 20 }))[0]).toBe('ALLOW');
    expect(await ledger.redis.hgetall(ledger.budgetKeyOf(ledger.scope({ agent: 'a' })))).toMatchObject({
      extras: '1',
      period_start: String((DAYS[2] as number) + 5),
      period_end: String(DAYS[3]),
      period_allocated: '50',
      boundaries: DAYS.slice(4).join(),
      windows: `day,20,0,${(DAYS[2] as number) + 5},${DAYS[3]}`,
      window_plans: DAYS.slice(4).join(),
    });
    expect((await late.reserve({ ...at('a'), amount: 1 })).slice(0, 4)).toEqual([
      'BUDGET_EXCEEDED',
      ledger.scope({ agent: 'a' }),
      '0',
      'day',
    ]);
    expect(
      await ledger.redis.zscore(periodIndexKey(ledger.tag), `${ledger.scope({ agent: 'a' })} TOKENS`),
    ).toBe(String(DAYS[3]));
    expect(
      (await clockAt(ledger, DAYS[4] as number).reserveToTheEnd({ ...at('b'), amount: 21 })).slice(-2),
    ).toEqual(['day', '20']);
    await assertInvariants(ledger);
  });

  test('of a fixed length last as long as the template says', async () => {
    const ledger = await withTemplate({ fields: { period_ms: '60000' } });
    await clockAt(ledger, NOW).reserve({ ...at('a'), amount: 20 });
    expect((await clockAt(ledger, NOW + 60_000).reserve({ ...at('a'), amount: 31 }))[0]).toBe(
      'BUDGET_EXCEEDED',
    );
    const key = ledger.budgetKeyOf(ledger.scope({ agent: 'a' }));
    expect(await ledger.redis.hmget(key, 'period_start', 'period_end')).toEqual(
      [NOW + 60_000, NOW + 120_000].map(String),
    );
  });

  test('that nobody has planned any more have to be planned before the request is decided', async () => {
    const ledger = await withTemplate({ fields, boundaries: DAYS, windowPlans: [DAYS] });
    const after = clockAt(ledger, (DAYS[8] as number) + 1);
    const unplanned = ['UNPLANNED', ledger.tenant, 'per-agent'];
    expect(
      await changes(ledger, async () => expect(await after.reserve(at('a'))).toEqual(unplanned)),
    ).toEqual([]);
    const member = `template ${ledger.tenant} per-agent`;
    expect(await ledger.redis.zscore(periodPlansKey(ledger.tag), member)).toBe(String(DAYS[4]));
    const key = budgetTemplateKey(ledger.tag, ledger.tenant, 'per-agent');
    const revision = (await ledger.redis.hget(key, 'revision')) as string;
    const later = DAYS.map((ms) => ms + 9 * DAY_MS);
    const plan = (of: string): Promise<string[]> =>
      after.scripts.run(
        'plan_budget_template',
        [key],
        [ledger.tenant, 'per-agent', of, later.join(), later.join()],
      );
    expect(await plan('another')).toEqual(['SKIP']);
    expect(await plan(revision)).toEqual(['PLANNED']);
    expect(await ledger.redis.zscore(periodPlansKey(ledger.tag), member)).toBe(String(later[4]));
    expect((await after.reserve(at('a')))[0]).toBe('ALLOW');
    expect(
      await after.scripts.run('plan_budget_template', [key], [ledger.tenant, 'per-agent', revision, '', '']),
    ).toEqual(['SKIP']);
    expect(await ledger.redis.hget(key, 'boundaries')).toBe(later.join());
    await ledger.redis.del(key);
    expect(await plan('')).toEqual(['SKIP']);
    expect(await ledger.redis.zscore(periodPlansKey(ledger.tag), member)).toBeNull();
  });
});

test('a reserve that waits for funds takes no place at a budget that is not made yet', async () => {
  const ledger = await withTemplate({ fields: { period_ms: '60000' } });
  const waiter = '10 120000 instance.1.60 - -';
  expect((await ledger.reserve({ ...at('a'), amount: 60, waiter }))[0]).toBe('BUDGET_EXCEEDED');
  expect(await figuresAt(ledger, 'a')).toBeUndefined();
  expect(await ledger.redis.exists(waitersKey(ledger.tag, ledger.tenant))).toBe(0);
  await ledger.makeBudget({ allocated: 40 });
  await ledger.hold({ amount: 30 });
  const other = '10 120000 instance.2.20 - -';
  expect((await ledger.reserve({ ...at('a'), amount: 20, waiter: other })).slice(0, 1)).toEqual(['WAITING']);
  expect(await figuresAt(ledger, 'a')).toBeUndefined();
});

test('a forecast of funds looks at the budget that a template would make', async () => {
  const ledger = await withTemplate();
  const forecast = await ledger.scripts.run(
    'forecast_funds',
    [`${ledger.tag}ttl`],
    [ledger.tenant, 'TOKENS', '60', '', 'hold', ledger.scope(), '60', ledger.scope({ agent: 'a' }), '60'],
  );
  expect([forecast[2], forecast[3], forecast[5], forecast[7]]).toEqual([
    ledger.scope({ agent: 'a' }),
    '50',
    '10',
    'FUNDING_REQUIRED',
  ]);
});

test('a template that changes only its plans has no new revision, and one that changes otherwise has', async () => {
  const ledger = await withTemplate();
  const revision = (): Promise<string | null> =>
    ledger.redis.hget(tenantKey(ledger.tag, ledger.tenant), 'templates');
  const first = await revision();
  expect((await setTemplate(ledger, { boundaries: DAYS }))[0]).toBe('UPDATED');
  expect(await revision()).toBe(first);
  const told = (await eventTypes(ledger)).length;
  expect((await setTemplate(ledger, { allocated: 51 }))[0]).toBe('UPDATED');
  expect(await revision()).not.toBe(first);
  expect((await eventTypes(ledger)).slice(told)).toEqual(['custom.budget_template.updated']);
  expect((await setTemplate(ledger, { pattern: '/app:*' }))[0]).toBe('OTHER_PATTERN');
  expect((await setTemplate(ledger, { unit: 'CREDITS' }))[0]).toBe('OTHER_PATTERN');
});
