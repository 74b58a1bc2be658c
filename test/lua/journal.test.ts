import { describe, expect, test } from '@jest/globals';
import { eventLogKey, journalKey, quarantineKey } from '../../src/redis/keyspace.js';
import { debit } from '../support/admission-client.js';
import { journalOf, requestsIn } from '../support/journal.js';
import { type LedgerClient, RETENTION_MS, TRACE } from '../support/ledger-client.js';
import { assertInvariants, snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

/** The entries of commits and debits. How each other way to end a hold enters the journal is in give-backs.test.ts. */

const newLedger = useLedger();
const AGENT = { agent: 'bot' };
const METRICS = '{"tokens_input":12,"model_version":"m-1"}';

async function withBudgets(leaf = 50, overdraftLimit = 0): Promise<LedgerClient> {
  const ledger = await newLedger();
  await ledger.makeBudget({ allocated: 1000 });
  await ledger.makeBudget({ scope: ledger.scope(AGENT), allocated: leaf, overdraftLimit });
  return ledger;
}

describe('a commit', () => {
  test.each<[string, number, string, Record<string, string>]>([
    ['of less than its hold', 7, '', { ch: '7' }],
    ['of its hold', 10, '', { ch: '10' }],
    ['of nothing', 0, '', { ch: '0' }],
    ['of more than its hold', 12, '', { ch: '12' }],
    ['that is capped', 60, '', { ch: '50', actual: '60' }],
    ['with metrics', 7, METRICS, { ch: '7', mc: METRICS }],
    ['that is capped, with metrics', 60, METRICS, { ch: '50', actual: '60', mc: METRICS }],
  ])('%s appends its charge and what its record lacks', async (_, actual, metrics, entry) => {
    const ledger = await withBudgets();
    const { id } = await ledger.hold({ subject: AGENT, amount: 10 });
    expect((await ledger.commit(id, actual, { metrics }))[0]).toBe('COMMITTED');
    expect(await journalOf(ledger)).toEqual([{ id, ...entry }]);
    await assertInvariants(ledger);
  });

  test('into debt appends the debt of all scopes', async () => {
    const ledger = await withBudgets(50, 100);
    const { id } = await ledger.hold({ subject: AGENT, amount: 10, policy: 'ALLOW_WITH_OVERDRAFT' });
    expect((await ledger.commit(id, 60))[0]).toBe('COMMITTED');
    expect(await journalOf(ledger)).toEqual([{ id, ch: '60', debt: '10' }]);
  });

  test('appends nothing when it is refused or repeated', async () => {
    const ledger = await withBudgets();
    const { id } = await ledger.hold({ subject: AGENT, amount: 10, policy: 'REJECT' });
    expect((await ledger.commit(id, 11))[0]).toBe('BUDGET_EXCEEDED');
    expect(await journalOf(ledger)).toEqual([]);
    await ledger.commit(id, 9, { key: 'k' });
    expect((await ledger.commit(id, 9, { key: 'k' }))[1]).toBe('replay');
    expect((await ledger.release(id))[0]).toBe('RESERVATION_FINALIZED');
    expect(await journalOf(ledger)).toEqual([{ id, ch: '9' }]);
  });

  test('keeps its metrics in the record, also a packed one', async () => {
    const ledger = await withBudgets();
    const { id } = await ledger.hold({ subject: AGENT, amount: 10 });
    await ledger.commit(id, 9, { metrics: METRICS });
    expect(await ledger.record(id)).toMatchObject({ mc: METRICS });
    await ledger.scripts.run('pack_records', [journalKey(ledger.tag)], [10]);
    expect(await ledger.record(id)).toMatchObject({ mc: METRICS, st: 'COMMITTED' });
  });
});

test('a commit and a release name their requests; an expiry and a debit, whose event does, name none', async () => {
  const ledger = await withBudgets();
  const ids = [];
  for (const key of ['a', 'b', 'c', 'd']) {
    ids.push((await ledger.hold({ subject: AGENT, amount: 10, key })).id);
  }
  const [plain, rich, released, expired] = ids as [string, string, string, string];
  await ledger.commit(plain, 7);
  await ledger.commit(rich, 7, { metrics: METRICS });
  await ledger.release(released);
  await ledger.makeOverdue(expired);
  await ledger.expirePage([expired]);
  await debit(ledger, { subject: AGENT, amount: 1 });
  const traceId = TRACE.slice(0, 32);
  expect(await requestsIn(ledger)).toEqual([
    ['req_commit', traceId],
    ['req_commit', traceId],
    ['req_release', traceId],
    [undefined, undefined],
    [undefined, undefined],
  ]);
});

describe('a debit', () => {
  test.each<[string, number, string, Record<string, string>]>([
    ['in full', 7, '', { ch: '7' }],
    ['of nothing', 0, '', { ch: '0' }],
    ['that is capped', 60, '', { ch: '50', actual: '60' }],
    ['into debt', 60, 'ALLOW_WITH_OVERDRAFT', { ch: '60', debt: '10' }],
  ])('%s appends its charge, its event and what the event lacks', async (_, amount, policy, entry) => {
    const ledger = await withBudgets(50, policy === '' ? 0 : 100);
    await debit(ledger, { subject: { ...AGENT, toolset: 'web' }, amount, policy, key: 'a|key' });
    const applied = (await assertInvariants(ledger)).events.find(
      ({ fields }) => fields['ty'] === 'custom.direct_debit.applied',
    );
    expect(await journalOf(ledger)).toEqual([{ event: applied?.id, ik: 'a|key', ...entry }]);
    expect(applied?.fields['bm']).toBe('110');
  });

  test('appends nothing when it is refused or repeated', async () => {
    const ledger = await withBudgets();
    expect((await debit(ledger, { subject: AGENT, amount: 51, policy: 'REJECT' }))[0]).toBe(
      'BUDGET_EXCEEDED',
    );
    expect(await journalOf(ledger)).toEqual([]);
    await debit(ledger, { amount: 5, key: 'k' });
    expect((await debit(ledger, { amount: 5, key: 'k' }))[1]).toBe('replay');
    expect(await journalOf(ledger)).toHaveLength(1);
  });
});

describe('a journal that is not a stream', () => {
  test.each<[string, (ledger: LedgerClient, id: string) => Promise<unknown>]>([
    ['commit', (ledger, id) => ledger.commit(id, 7)],
    ['commit of more than its hold', (ledger, id) => ledger.commit(id, 12)],
    ['debit', (ledger) => debit(ledger, { amount: 7 })],
    ['release', (ledger, id) => ledger.release(id)],
  ])('fails a %s before anything is written', async (_, change) => {
    const ledger = await withBudgets();
    const { id } = await ledger.hold({ subject: AGENT, amount: 10 });
    await ledger.redis.set(journalKey(ledger.tag), 'damaged');
    const before = await snapshot(ledger);
    await expect(change(ledger, id)).rejects.toThrow('WRONGTYPE');
    expect(await snapshot(ledger)).toEqual(before);
  });
});

test('a mended reservation that was charged when it expired has this charge in its entry', async () => {
  const ledger = await withBudgets();
  const { id } = await ledger.hold({ subject: AGENT, amount: 10, fields: { ce: '6' } });
  await ledger.makeOverdue(id);
  await ledger.expirePage([id]);
  const key = ledger.reservationKeyOf(id);
  await ledger.redis.hdel(key, 'fa');
  await ledger.redis.hset(quarantineKey(ledger.tag), id, 'INVALID_END 1');
  const decide = [id, 'release', '', RETENTION_MS, 'req_decide', TRACE, ''] as const;
  expect((await ledger.scripts.run('decide_quarantined', [key], decide))[0]).toBe('RELEASED');
  expect(await journalOf(ledger)).toEqual([
    { id, ch: '6' },
    { id, ch: '6', mended: '1' },
  ]);
});

test('an ended reservation that is mended in quarantine appends that nothing was charged now', async () => {
  const ledger = await withBudgets();
  const { id } = await ledger.hold({ subject: AGENT, amount: 10 });
  await ledger.commit(id, 9);
  const key = ledger.reservationKeyOf(id);
  await ledger.redis.hdel(key, 'fa');
  await ledger.redis.hset(quarantineKey(ledger.tag), id, 'INVALID_END 1');
  const decide = [id, 'release', '', RETENTION_MS, 'req_decide', TRACE, ''] as const;
  await ledger.redis.rename(journalKey(ledger.tag), `${ledger.tag}aside`);
  await ledger.redis.set(journalKey(ledger.tag), 'damaged');
  const before = await snapshot(ledger);
  await expect(ledger.scripts.run('decide_quarantined', [key], decide)).rejects.toThrow('WRONGTYPE');
  expect(await snapshot(ledger)).toEqual(before);
  await ledger.redis.rename(`${ledger.tag}aside`, journalKey(ledger.tag));
  expect((await ledger.scripts.run('decide_quarantined', [key], decide))[0]).toBe('RELEASED');
  expect(await journalOf(ledger)).toEqual([
    { id, ch: '9' },
    { id, ch: '9', mended: '1' },
  ]);
  expect(await ledger.redis.xlen(eventLogKey(ledger.tag))).toBeGreaterThan(0);
});
