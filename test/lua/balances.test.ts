import { expect, test } from '@jest/globals';
import { treeOrder } from '../../src/ledger/scopes.js';
import { budgetIndexKey } from '../../src/redis/keyspace.js';
import { shows } from '../compatibility/shows.js';
import type { LedgerClient } from '../support/ledger-client.js';
import { snapshot } from '../support/ledger-state.js';
import { commandsOf } from '../support/script-commands.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();

interface Page {
  readonly next: string;
  readonly found: string[];
  /** The scope and unit of each budget that cannot be read. */
  readonly damaged?: string;
}

/**
 * Reads the budgets whose scopes contain all the given segments, and end with the first of them or are below
 * it.
 */
async function page(
  ledger: LedgerClient,
  segments: readonly string[],
  options: { after?: string; limit?: number; examine?: number; children?: boolean; prefix?: string } = {},
): Promise<Page> {
  const [deepest = '', ...others] = segments;
  const { after = '', limit = 100, examine = 1000, children = false, prefix = ledger.scope() } = options;
  const [next = '', damagedCount, ...names] = await ledger.scripts.run(
    'balances',
    [budgetIndexKey(ledger.tag, ledger.tenant)],
    [after, limit, examine, children ? '1' : '0', prefix, deepest, ...others],
  );
  const damaged = names.slice(0, 2 * Number(damagedCount));
  const rows = names.slice(damaged.length);
  const found = Array.from({ length: rows.length / 3 }, (_, index) =>
    rows.slice(3 * index, 3 * index + 3).join(' '),
  );
  return { next, found, ...(damaged.length > 0 && { damaged: damaged.join(' ') }) };
}

async function scopesOf(
  ledger: LedgerClient,
  segments: readonly string[],
  children = false,
): Promise<string[]> {
  const { found } = await page(ledger, segments, { children });
  return found.map((row) => row.split(' ')[0] as string).map((scope) => scope.slice(ledger.scope().length));
}

test('shows every figure of the matching budget in every unit, and changes nothing', async () => {
  shows('getBalances');
  const ledger = await newLedger();
  const scope = await ledger.makeBudget({
    allocated: '9223372036854775807',
    debt: 5,
    overdraftLimit: 7,
    isOverLimit: true,
  });
  await ledger.makeBudget({ unit: 'CREDITS', allocated: 3, status: 'FROZEN' });
  const before = await snapshot(ledger);
  expect(await page(ledger, [`tenant:${ledger.tenant}`])).toEqual({
    next: '',
    found: [
      `${scope} CREDITS 3,0,0,3,0,0,0`,
      `${scope} TOKENS 9223372036854775802,0,0,9223372036854775807,5,7,1`,
    ],
  });
  expect(await snapshot(ledger)).toEqual(before);
});

test('matches whole segments only, at their own level, and children on request', async () => {
  const ledger = await newLedger();
  const subjects = [
    {},
    { workspace: 'prod' },
    { agent: 'bot' },
    { agent: 'bot2' },
    { workspace: 'prod', agent: 'bot' },
    { workspace: 'prod', agent: 'bot', toolset: 'x' },
  ];
  for (const subject of subjects) {
    await ledger.makeBudget({ scope: ledger.scope(subject) });
  }
  expect(await scopesOf(ledger, ['agent:bot'])).toEqual(['/agent:bot', '/workspace:prod/agent:bot']);
  expect(await scopesOf(ledger, ['agent:bot', 'workspace:prod'])).toEqual(['/workspace:prod/agent:bot']);
  expect(await scopesOf(ledger, ['agent:bot'], true)).toEqual([
    '/agent:bot',
    '/workspace:prod/agent:bot',
    '/workspace:prod/agent:bot/toolset:x',
  ]);
  expect(await scopesOf(ledger, [`tenant:${ledger.tenant}`])).toEqual(['']);
  expect(await scopesOf(ledger, [`tenant:${ledger.tenant}`], true)).toHaveLength(6);
  expect(await scopesOf(ledger, ['agent:bo'])).toEqual([]);
  expect(await scopesOf(ledger, ['agent:b.t'], true)).toEqual([]);
});

test('lists hundreds of budgets in pages, each once, whatever other budgets are between them', async () => {
  const ledger = await newLedger();
  const names = Array.from({ length: 450 }, (_, index) => `a${String(index).padStart(3, '0')}`);
  for (const name of names) {
    await ledger.makeBudget({
      scope: ledger.scope(name.endsWith('7') ? { agent: name } : { workspace: 'w', agent: name }),
    });
  }
  const found: string[] = [];
  let after = '';
  do {
    const { next, found: rows } = await page(ledger, ['workspace:w'], { children: true, limit: 100, after });
    expect(rows.length).toBeLessThanOrEqual(100);
    found.push(...rows.map((row) => row.split(' ')[0] as string));
    after = next;
  } while (after !== '');
  const expected = names
    .filter((name) => !name.endsWith('7'))
    .map((name) => ledger.scope({ workspace: 'w', agent: name }));
  expect(found).toEqual(expected);
});

test('a run examines no more entries than asked for, and the next one continues after them, even if the last one is gone', async () => {
  const ledger = await newLedger();
  for (let index = 0; index < 25; index += 1) {
    await ledger.makeBudget({ scope: ledger.scope({ agent: `a${String(index).padStart(2, '0')}` }) });
  }
  const scopes: string[] = [];
  let [after, runs] = ['', 0];
  do {
    let run: Page | undefined;
    const commands = await commandsOf(ledger.redis, ledger.tenant, async () => {
      run = await page(ledger, ['agent:a24'], { after, examine: 10 });
    });
    expect(commands.filter(([name]) => name === 'ZRANGEBYLEX').map((args) => args.slice(-2))).toContainEqual([
      '0',
      '10',
    ]);
    expect(commands.filter(([name]) => name === 'HMGET').length).toBeLessThanOrEqual(1);
    scopes.push(...(run as Page).found);
    after = (run as Page).next;
    await ledger.redis.zrem(budgetIndexKey(ledger.tag, ledger.tenant), after);
    runs += 1;
  } while (after !== '');
  expect(runs).toBe(3);
  expect(scopes).toEqual([`${ledger.scope({ agent: 'a24' })} TOKENS 1000,0,0,1000,0,0,0`]);
});

test('a run reads only entries that start with the gapless leading segments', async () => {
  const ledger = await newLedger();
  for (let index = 0; index < 20; index += 1) {
    await ledger.makeBudget({ scope: ledger.scope({ workspace: `w-${index}` }) });
    await ledger.makeBudget({ scope: ledger.scope({ workspace: `z${index}` }) });
  }
  await ledger.makeBudget({ scope: ledger.scope({ workspace: 'w' }) });
  await ledger.makeBudget({ scope: ledger.scope({ workspace: 'w', agent: 'bot' }) });
  const prefix = ledger.scope({ workspace: 'w' });
  const own = [`${prefix} TOKENS 1000,0,0,1000,0,0,0`];
  const below = [`${ledger.scope({ workspace: 'w', agent: 'bot' })} TOKENS 1000,0,0,1000,0,0,0`];
  expect(await page(ledger, ['workspace:w'], { prefix, examine: 3 })).toEqual({ next: '', found: own });
  expect(await page(ledger, ['workspace:w'], { prefix, examine: 3, children: true })).toEqual({
    next: '',
    found: [...own, ...below],
  });
  expect(await page(ledger, ['agent:bot', 'workspace:w'], { prefix, examine: 3 })).toEqual({
    next: '',
    found: below,
  });
  // A cursor may be between the two, and need not be a budget.
  expect(
    await page(ledger, ['workspace:w'], {
      prefix,
      examine: 3,
      children: true,
      after: treeOrder(`${prefix} TOKENSX`),
    }),
  ).toEqual({ next: '', found: below });
  expect(
    await page(ledger, ['workspace:nothing'], { prefix: ledger.scope({ workspace: 'nothing' }), examine: 1 }),
  ).toEqual({ next: '', found: [] });
});

test('a tenant without budgets has an empty page', async () => {
  expect(await page(await newLedger(), ['agent:bot'])).toEqual({ next: '', found: [] });
});

test('a missing or corrupt budget is named, and left out', async () => {
  const ledger = await newLedger();
  await ledger.makeBudget();
  const named = { next: '', found: [], damaged: `${ledger.scope()} TOKENS` };
  await ledger.redis.hset(ledger.budgetKeyOf(), 'spent', 'x');
  expect(await page(ledger, [`tenant:${ledger.tenant}`])).toEqual(named);
  await ledger.redis.del(ledger.budgetKeyOf());
  expect(await page(ledger, [`tenant:${ledger.tenant}`])).toEqual(named);
});
