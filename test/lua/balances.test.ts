import { expect, test } from '@jest/globals';
import { budgetIndexKey } from '../../src/redis/keyspace.js';
import type { LedgerClient } from '../support/ledger-client.js';
import { snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();

interface Page {
  readonly next: string;
  readonly found: string[];
}

/** Asks for the budgets that hold every segment and end with the first one given, or lie below it. */
async function page(
  ledger: LedgerClient,
  segments: readonly string[],
  options: { after?: string; limit?: number; children?: boolean } = {},
): Promise<Page> {
  const [deepest = '', ...others] = segments;
  const { after = '', limit = 100, children = false } = options;
  const [next = '', ...rows] = await ledger.scripts.run('balances', [budgetIndexKey(ledger.tag, ledger.tenant)], [
    after, limit, children ? '1' : '0', deepest, ...others,
  ]);
  const found = Array.from({ length: rows.length / 3 }, (_, index) => rows.slice(3 * index, 3 * index + 3).join(' '));
  return { next, found };
}

async function scopesOf(ledger: LedgerClient, segments: readonly string[], children = false): Promise<string[]> {
  const { found } = await page(ledger, segments, { children });
  return found.map((row) => row.split(' ')[0] as string).map((scope) => scope.slice(ledger.scope().length));
}

test('shows every figure of the matching budget in every unit, and changes nothing', async () => {
  const ledger = await newLedger();
  const scope = await ledger.makeBudget({ allocated: '9223372036854775807', debt: 5, overdraftLimit: 7, isOverLimit: true });
  await ledger.makeBudget({ unit: 'CREDITS', allocated: 3, status: 'FROZEN' });
  const before = await snapshot(ledger);
  expect(await page(ledger, [`tenant:${ledger.tenant}`])).toEqual({
    next: '',
    found: [`${scope} CREDITS 3,0,0,3,0,0,0`, `${scope} TOKENS 9223372036854775802,0,0,9223372036854775807,5,7,1`],
  });
  expect(await snapshot(ledger)).toEqual(before);
});

test('matches whole segments only, at their own level, and children when they are asked for', async () => {
  const ledger = await newLedger();
  const subjects = [
    {}, { workspace: 'prod' }, { agent: 'bot' }, { agent: 'bot2' }, { workspace: 'prod', agent: 'bot' },
    { workspace: 'prod', agent: 'bot', toolset: 'x' },
  ];
  for (const subject of subjects) {
    await ledger.makeBudget({ scope: ledger.scope(subject) });
  }
  expect(await scopesOf(ledger, ['agent:bot'])).toEqual(['/agent:bot', '/workspace:prod/agent:bot']);
  expect(await scopesOf(ledger, ['agent:bot', 'workspace:prod'])).toEqual(['/workspace:prod/agent:bot']);
  expect(await scopesOf(ledger, ['agent:bot'], true)).toEqual([
    '/agent:bot', '/workspace:prod/agent:bot', '/workspace:prod/agent:bot/toolset:x',
  ]);
  expect(await scopesOf(ledger, [`tenant:${ledger.tenant}`])).toEqual(['']);
  expect(await scopesOf(ledger, [`tenant:${ledger.tenant}`], true)).toHaveLength(6);
  expect(await scopesOf(ledger, ['agent:bo'])).toEqual([]);
  expect(await scopesOf(ledger, ['agent:b.t'], true)).toEqual([]);
});

test('pages through hundreds of budgets, each once, whatever does not match between them', async () => {
  const ledger = await newLedger();
  const names = Array.from({ length: 450 }, (_, index) => `a${String(index).padStart(3, '0')}`);
  for (const name of names) {
    await ledger.makeBudget({ scope: ledger.scope(name.endsWith('7') ? { agent: name } : { workspace: 'w', agent: name }) });
  }
  const found: string[] = [];
  let after = '';
  do {
    const { next, found: rows } = await page(ledger, ['workspace:w'], { children: true, limit: 100, after });
    expect(rows.length).toBeLessThanOrEqual(100);
    found.push(...rows.map((row) => row.split(' ')[0] as string));
    after = next;
  } while (after !== '');
  const expected = names.filter((name) => !name.endsWith('7')).map((name) => ledger.scope({ workspace: 'w', agent: name }));
  expect(found).toEqual(expected);
});

test('a page that ends with the last match says that there is no next one', async () => {
  const ledger = await newLedger();
  await ledger.makeBudget();
  await ledger.makeBudget({ unit: 'CREDITS' });
  expect((await page(ledger, [`tenant:${ledger.tenant}`], { limit: 2 })).next).toBe('');
  expect((await page(ledger, [`tenant:${ledger.tenant}`], { limit: 1 })).next).not.toBe('');
});

test('a tenant without budgets has an empty page', async () => {
  expect(await page(await newLedger(), ['agent:bot'])).toEqual({ next: '', found: [] });
});

test('an index that names a budget which is gone, or a corrupt one, ends with an error', async () => {
  const ledger = await newLedger();
  await ledger.makeBudget();
  await ledger.redis.hset(ledger.budgetKeyOf(), 'spent', 'x');
  await expect(page(ledger, [`tenant:${ledger.tenant}`])).rejects.toThrow('corrupt budget record');
  await ledger.redis.del(ledger.budgetKeyOf());
  await expect(page(ledger, [`tenant:${ledger.tenant}`])).rejects.toThrow('a budget that is gone');
});
