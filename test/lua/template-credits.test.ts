import { describe, expect, test } from '@jest/globals';
import { budgetTemplateKey, creditIndexKey } from '../../src/redis/keyspace.js';
import type { Reply } from '../../src/redis/scripts.js';
import { debit, decide } from '../support/admission-client.js';
import { creditsOf, granted } from '../support/credit-client.js';
import { clockAt } from '../support/fixed-clock.js';
import { fund } from '../support/governance-client.js';
import {
  type LedgerClient,
  randomText,
  type ReserveOptions,
  RETENTION_MS,
  TRACE,
} from '../support/ledger-client.js';
import { assertInvariants, readLedger, snapshot } from '../support/ledger-state.js';
import { reserveSet } from '../support/reservation-sets.js';
import { setTemplate, type TemplateOptions } from '../support/template-client.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const MAX = 9223372036854775807n;
/** In the year 2100, far from the server's own clock. */
const T = Date.UTC(2100, 0, 1);
const A: ReserveOptions = { subject: { agent: 'a' } };

interface TemplateCredit {
  readonly name?: string;
  readonly amount?: bigint | number;
  readonly lastsMs?: number;
  readonly notifyBeforeMs?: number;
}

/** As the service stores them. */
const textOf = (credits: readonly TemplateCredit[]): string =>
  credits
    .map(({ name = 'Trial', amount = 30, lastsMs = 100_000, notifyBeforeMs = '' }) =>
      [amount, lastsMs, name, 'trial', 50, notifyBeforeMs, '{"a":1}'].join('\x1f'),
    )
    .join('\x1e');

/** A template that allocates 50, on the server's clock, on which the calls of a moment are one run. */
async function withTemplate(
  credits: readonly TemplateCredit[] = [{}],
  { fields = {}, ...options }: TemplateOptions = {},
): Promise<LedgerClient> {
  const ledger = await newLedger();
  await ledger.makeTenant();
  await setCredits(ledger, credits, { ...options, fields });
  return ledger;
}

async function setCredits(
  ledger: LedgerClient,
  credits: readonly TemplateCredit[],
  { fields = {}, ...options }: TemplateOptions = {},
): Promise<void> {
  const more = credits.length === 0 ? {} : { credits: textOf(credits) };
  await setTemplate(ledger, { ...options, fields: { ...fields, ...more } });
}

const scopeOf = (ledger: LedgerClient): string => ledger.scope({ agent: 'a' });
const figures = (ledger: LedgerClient): Promise<string> => ledger.figures(scopeOf(ledger));
const isBorn = async (ledger: LedgerClient): Promise<boolean> =>
  (await ledger.redis.exists(ledger.budgetKeyOf(scopeOf(ledger)))) === 1;

/** `left consumed lapsed` of each credit, in order. */
const became = async (ledger: LedgerClient): Promise<string[]> =>
  (await creditsOf(ledger, scopeOf(ledger)))
    .map(({ left, consumed, lapsed }) => [left, consumed, lapsed].join(' '))
    .sort();
const told = async (ledger: LedgerClient): Promise<string[]> =>
  (await assertInvariants(ledger)).events
    .map(({ fields }) => fields['ty'] as string)
    .filter((type) => type === 'budget.created' || type.startsWith('custom.credit.'));

const BORN = ['budget.created', 'custom.credit.granted', 'custom.credit.started'];

function apply(ledger: LedgerClient): Promise<Reply> {
  return ledger.scripts.run(
    'apply_budget_template',
    [ledger.budgetKeyOf(scopeOf(ledger)), budgetTemplateKey(ledger.tag, ledger.tenant, 'per-agent')],
    [
      ledger.tenant,
      scopeOf(ledger),
      'TOKENS',
      'per-agent',
      1000,
      'corr_1',
      'admin',
      '',
      `req_${randomText(8)}`,
      TRACE,
      RETENTION_MS,
    ],
  );
}

describe('a budget that a template with credits makes', () => {
  test('has them from its first reserve on, with records and events, made by the system', async () => {
    const ledger = clockAt(await withTemplate([{}, { name: 'Promotion', amount: 5, lastsMs: 10 }]), T);
    const reply = await ledger.reserve({ ...A, amount: 85 });
    expect(reply[0]).toBe('ALLOW');
    expect(await figures(ledger)).toBe('0,85,0,85,0,0,0');
    const { events } = await readLedger(ledger);
    const grants = events.filter(({ fields }) => fields['ty'] === 'custom.credit.granted');
    expect(grants.map(({ fields }) => fields)).toMatchObject(
      ['Trial', 'Promotion'].map((name) => ({
        ...{ ac: 'system', rq: 'req_reserve', sc: scopeOf(ledger), name, category: 'trial', unit: 'TOKENS' },
        ledger_id: expect.stringMatching(/^ldg_/),
        credit_id: expect.stringMatching(/^crd_[0-9A-Za-z]{2}[0-9a-f]{16}$/),
      })),
    );
    expect(await told(ledger)).toEqual([...BORN.slice(0, 2), BORN[1], BORN[2], BORN[2]]);
    expect(new Set(grants.map(({ fields }) => fields['credit_id'])).size).toBe(2);
    const entry = `${scopeOf(ledger)} TOKENS`;
    expect(await ledger.redis.zscore(creditIndexKey(ledger.tag), entry)).toBe(String(T + 10));
    expect(await became(ledger)).toEqual(['30 0 0', '5 0 0']);
    await clockAt(ledger, T + 10).commit(reply[2] as string, 33);
    // The pin of the one that has ended pays first.
    expect(await became(ledger)).toEqual(['0 5 0', '2 28 0']);
    await assertInvariants(ledger);
  });

  test('is refused by what it would have with them, and not made', async () => {
    const ledger = await withTemplate();
    const before = await snapshot(ledger);
    expect(await ledger.reserve({ ...A, amount: 81, key: 'k' })).toEqual([
      'BUDGET_EXCEEDED',
      scopeOf(ledger),
      '80',
    ]);
    expect((await decide(ledger, { ...A, amount: 80 }))[0]).toBe('ALLOW');
    expect((await decide(ledger, { ...A, amount: 81 }))[0]).toBe('DENY');
    expect((await ledger.reserve({ ...A, amount: 80, dryRun: true }))[0]).toBe('ALLOW_DRY_RUN');
    const changed = [...(await snapshot(ledger))].filter(([key, value]) => before.get(key) !== value);
    expect(changed.map(([key]) => key).filter((key) => !/\}(events$|ev:|i:)/.test(key))).toEqual([]);
    expect(await isBorn(ledger)).toBe(false);
  });

  test('is shared with its credits by the calls of a run, and by a debit that charges them', async () => {
    const ledger = await withTemplate();
    const replies = await Promise.all([81, 40, 40, 1].map((amount) => ledger.reserve({ ...A, amount })));
    expect(replies.map(([word]) => word)).toEqual(['BUDGET_EXCEEDED', 'ALLOW', 'ALLOW', 'BUDGET_EXCEEDED']);
    expect(await told(ledger)).toEqual(BORN);
    expect(await became(ledger)).toEqual(['30 0 0']);

    const other = await withTemplate();
    const debits = await Promise.all([45, 20].map((amount) => debit(other, { ...A, amount })));
    expect(debits.map(([word]) => word)).toEqual(['APPLIED', 'APPLIED']);
    expect(await figures(other)).toBe('15,0,65,80,0,0,0');
    expect(await became(other)).toEqual(['0 30 0']);
    expect(await told(other)).toEqual([...BORN, 'custom.credit.exhausted']);
    const charges = (await readLedger(other)).events.map(({ fields }) => fields['cr']).filter(Boolean);
    expect(charges).toEqual([expect.stringMatching(/^crd_\w+:30$/)]);
  });

  test('gets them once if the request is repeated, and with a set that is granted', async () => {
    const ledger = await withTemplate();
    const refused = await reserveSet(ledger, [
      { ...A, amount: 40 },
      { ...A, amount: 41 },
    ]);
    expect([refused.refused, await isBorn(ledger)]).toEqual([1, false]);
    const members = [40, 40].map((amount) => ({ ...A, amount, key: `k-${randomText(4)}` }));
    expect((await reserveSet(ledger, members)).refused).toBeUndefined();
    await reserveSet(ledger, members);
    const first = await ledger.reserve({ ...A, amount: 0, key: 'again' });
    expect((await ledger.reserve({ ...A, amount: 0, key: 'again' }))[2]).toBe(first[2]);
    expect(await told(ledger)).toEqual(BORN);
    expect(await figures(ledger)).toBe('0,80,0,80,0,0,0');
  });

  test('has the periods of the template for its own allocation alone', async () => {
    const ledger = clockAt(await withTemplate([{}], { fields: { period_ms: '60000' } }), T);
    await debit(ledger, { ...A, amount: 10 });
    const later = clockAt(ledger, T + 60_000);
    await fund(later, 0, { scope: scopeOf(ledger) });
    expect(await figures(later)).toBe('70,0,0,70,0,0,0');
  });

  test('may have all that int64 holds', async () => {
    const ledger = await withTemplate([{ amount: MAX - 50n }]);
    expect((await ledger.reserve({ ...A, amount: MAX }))[0]).toBe('ALLOW');
    await assertInvariants(ledger);
  });

  test('is told of an end that is nearer than its notice at once', async () => {
    const ledger = clockAt(await withTemplate([{ notifyBeforeMs: 100_000 }]), T);
    await ledger.reserve(A);
    expect(await told(ledger)).toEqual([...BORN, 'custom.credit.ending']);
    const then = clockAt(ledger, T + 100_000);
    await fund(then, 0, { scope: scopeOf(ledger) });
    expect(await became(then)).toEqual(['0 0 20']);
  });

  test.each([
    ['the index of moments', (ledger: LedgerClient): string => creditIndexKey(ledger.tag)],
    ['the list of credits', (ledger: LedgerClient): string => `${ledger.tag}bc:TOKENS:${scopeOf(ledger)}`],
    ['the template', (ledger: LedgerClient) => budgetTemplateKey(ledger.tag, ledger.tenant, 'per-agent')],
  ])('is not begun if %s is damaged', async (what, keyOf) => {
    const ledger = await withTemplate();
    if (what === 'the template') {
      await ledger.redis.hset(keyOf(ledger), 'credits', '30\x1fsoon');
    } else {
      await ledger.redis.set(keyOf(ledger), 'damaged');
    }
    const before = await snapshot(ledger);
    await expect(ledger.reserve(A)).rejects.toThrow();
    await expect(debit(ledger, A)).rejects.toThrow();
    expect(await snapshot(ledger)).toEqual(before);
  });
});

describe('a template that is applied again', () => {
  test('gives the credits that it has never given, also beside those of operators', async () => {
    const ledger = await withTemplate([{}, { name: 'Short', amount: 5, lastsMs: 1 }]);
    await debit(ledger, { ...A, amount: 10 });
    await granted(ledger, 7, { scope: scopeOf(ledger), name: 'Trial' });
    await setCredits(ledger, [{ amount: 31 }, { name: 'Short' }, { name: 'New', amount: 3 }], {
      allocated: 60,
    });
    expect(await apply(ledger)).toEqual(['SUCCEEDED']);
    expect(await apply(ledger)).toEqual(['SKIPPED', 'ALREADY_IN_TARGET_STATE']);
    const names = (await readLedger(ledger)).events
      .filter(({ fields }) => fields['ty'] === 'custom.credit.granted')
      .map(({ fields }) => `${fields['ac']} ${fields['name']} ${fields['amount']}`);
    expect(names).toEqual(['system Trial 30', 'system Short 5', 'admin Trial 7', 'admin New 3']);
    await setCredits(ledger, []);
    expect(await apply(ledger)).toEqual(['SUCCEEDED']);
    await setCredits(ledger, [{}, { name: 'New' }]);
    expect(await apply(ledger)).toEqual(['SUCCEEDED']);
    expect(await creditsOf(ledger, scopeOf(ledger))).toHaveLength(4);
    await assertInvariants(ledger);
  });

  test('changes nothing of a budget that cannot have them', async () => {
    const ledger = await withTemplate([]);
    await ledger.reserve({ ...A, amount: 1 });
    for (let count = 0; count < 63; count += 1) {
      await granted(ledger, 1, { scope: scopeOf(ledger) });
    }
    await setCredits(ledger, [{}, { name: 'Other' }], { allocated: 60 });
    const before = await snapshot(ledger);
    expect(await apply(ledger)).toEqual(['TOO_MANY_CREDITS']);
    expect(await snapshot(ledger)).toEqual(before);
    await setCredits(ledger, [{ amount: MAX - 122n }], { allocated: 60 });
    expect(await apply(ledger)).toEqual(['INT64_OVERFLOW']);
    await setCredits(ledger, [{ amount: MAX - 123n }], { allocated: 60 });
    expect(await apply(ledger)).toEqual(['SUCCEEDED']);
    await assertInvariants(ledger);
  });
});
