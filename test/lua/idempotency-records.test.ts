import { describe, expect, test } from '@jest/globals';
import { idempotencyKey, reservationIndexKey } from '../../src/redis/keyspace.js';
import { makePolicy } from '../support/admission-client.js';
import { recordedValues, replaceRecord } from '../support/idempotency-record.js';
import { type BudgetOptions, type LedgerClient, RETENTION_MS, TRACE } from '../support/ledger-client.js';
import { assertInvariants, snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const SUBJECT = { agent: 'bot' };
const MAX = '9223372036854775807';

/** What a record holds, without the fingerprint. */
const outcomeIn = async (ledger: LedgerClient, key: string): Promise<unknown[]> =>
  (await recordedValues(ledger.redis, key)).slice(1);

async function withTwoBudgets(): Promise<LedgerClient> {
  const ledger = await newLedger();
  await ledger.makeBudget({ allocated: 1000 });
  await ledger.makeBudget({ scope: ledger.scope(SUBJECT), allocated: 500, overdraftLimit: 50 });
  return ledger;
}

describe('the record of a reserve', () => {
  test('has balances in the short form where there is neither debt nor an overdraft limit', async () => {
    const ledger = await withTwoBudgets();
    const { id, expiresAt } = await ledger.hold({ subject: SUBJECT, key: 'k' });
    const record = idempotencyKey.reserve(ledger.tag, ledger.tenant, 'k');
    expect(await outcomeIn(ledger, record)).toEqual([
      id.slice(6),
      expiresAt,
      'a11',
      [990, 10, 0],
      '490,10,0,500,0,50,0',
    ]);
  });

  test('leads to the hold in a list, and a request with another payload to a mismatch', async () => {
    const ledger = await withTwoBudgets();
    const { id } = await ledger.hold({ subject: SUBJECT, key: 'k' });
    const query = [
      ledger.tenant,
      'desc',
      '-inf',
      '+inf',
      '',
      '',
      1,
      1,
      RETENTION_MS,
      'req_list',
      TRACE,
    ] as const;
    const index = reservationIndexKey(ledger.tag, ledger.tenant);
    await ledger.hold();
    // If the record were missing, the list of one entry would be that of the other reservation, and be empty.
    expect(
      await ledger.scripts.run('list_reservations', [index], [...query, 'idempotency_key', 'k']),
    ).toContain(id);
    const state = await snapshot(ledger);
    expect(await ledger.reserve({ subject: SUBJECT, key: 'k', amount: 11 })).toEqual([
      'IDEMPOTENCY_MISMATCH',
    ]);
    expect(await snapshot(ledger)).toEqual(state);
  });

  test('returns every figure of the largest amount', async () => {
    const ledger = await newLedger();
    const scope = await ledger.makeBudget({ allocated: MAX, spent: 7 });
    const first = await ledger.reserve({ key: 'k' });
    expect(first.slice(-2)).toEqual([scope, `9223372036854775790,10,7,${MAX},0,0,0`]);
    const replay = await ledger.reserve({ key: 'k' });
    expect(replay.with(4, '')).toEqual(first.with(1, 'replay').with(4, ''));
  });

  test('returns caps and balances in both forms', async () => {
    const ledger = await withTwoBudgets();
    await ledger.makeTenant();
    await makePolicy(ledger, ledger.scope(), { sets: { caps: '{"max_tokens":5}' } });
    const first = await ledger.reserve({ subject: SUBJECT, key: 'k' });
    expect([first[0], ...first.slice(6)]).toEqual([
      'ALLOW_WITH_CAPS',
      '{"max_tokens":5}',
      ledger.scope(),
      '990,10,0,1000,0,0,0',
      ledger.scope(SUBJECT),
      '490,10,0,500,0,50,0',
    ]);
    const record = idempotencyKey.reserve(ledger.tag, ledger.tenant, 'k');
    expect((await outcomeIn(ledger, record)).slice(-2)).toEqual([[990, 10, 0], '490,10,0,500,0,50,0']);
    const replay = await ledger.reserve({ subject: SUBJECT, key: 'k' });
    expect(replay.with(4, '')).toEqual(first.with(1, 'replay').with(4, ''));
  });
});

describe('the record of a settlement', () => {
  test.each<[string, BudgetOptions, string]>([
    ['a negative amount left', { allocated: 5, spent: 10 }, '-5,0,10,5,0,0,0'],
    ['no allocation but a debt', { allocated: 0, debt: 1 }, '-1,0,0,0,1,0,0'],
    ['an over-limit mark', { spent: 7, isOverLimit: true }, '993,0,7,1000,0,0,1'],
    ['an overdraft limit', { overdraftLimit: 8 }, '1000,0,0,1000,0,8,0'],
    ['15 digits', { allocated: '999999999999999' }, '999999999999999,0,0,999999999999999,0,0,0'],
    ['16 digits', { allocated: '1000000000000000' }, '1000000000000000,0,0,1000000000000000,0,0,0'],
    [
      'a negative amount of 15 digits left',
      { allocated: 1, spent: '1000000000000000' },
      '-999999999999999,0,1000000000000000,1,0,0,0',
    ],
    [
      'a negative amount of 16 digits left',
      { allocated: 0, spent: '1000000000000000' },
      '-1000000000000000,0,1000000000000000,0,0,0,0',
    ],
  ])('returns every figure, with %s', async (_, budget, balance) => {
    const ledger = await newLedger();
    const scope = await ledger.makeBudget();
    const { id } = await ledger.hold();
    await ledger.makeBudget({ ...budget, reserved: 10 });
    const first = await ledger.release(id, { key: 'l' });
    expect(first).toEqual(['RELEASED', 'fresh', '10', 'TOKENS', scope, balance]);
    expect(await ledger.release(id, { key: 'l' })).toEqual(first.with(1, 'replay'));
  });

  test('leads to its outcome, and to a mismatch', async () => {
    const ledger = await withTwoBudgets();
    const scopes = [ledger.scope(), ledger.scope(SUBJECT)] as const;
    const [committed, released] = [
      await ledger.hold({ subject: SUBJECT }),
      await ledger.hold({ subject: SUBJECT, amount: 20 }),
    ];
    const commit = await ledger.commit(committed.id, 4, { key: 'c' });
    const release = await ledger.release(released.id, { key: 'l' });
    const [commitRecord, releaseRecord] = [
      idempotencyKey.commit(ledger.tag, ledger.tenant, committed.id, 'c'),
      idempotencyKey.release(ledger.tag, ledger.tenant, released.id, 'l'),
    ];
    expect(await outcomeIn(ledger, commitRecord)).toEqual([
      '4',
      '6',
      'a',
      '0',
      '0',
      [976, 20, 4],
      '476,20,4,500,0,50,0',
    ]);
    expect(await outcomeIn(ledger, releaseRecord)).toEqual(['20', [996, 0, 4], '496,0,4,500,0,50,0']);
    const state = await snapshot(ledger);
    expect(commit.slice(-4)).toEqual([scopes[0], '976,20,4,1000,0,0,0', scopes[1], '476,20,4,500,0,50,0']);
    expect(await ledger.commit(committed.id, 4, { key: 'c' })).toEqual(commit.with(1, 'replay'));
    expect(await ledger.release(released.id, { key: 'l' })).toEqual(release.with(1, 'replay'));
    expect(await ledger.commit(committed.id, 5, { key: 'c' })).toEqual(['IDEMPOTENCY_MISMATCH']);
    expect(await ledger.release(released.id, { key: 'l', reason: 'x' })).toEqual(['IDEMPOTENCY_MISMATCH']);
    expect(await snapshot(ledger)).toEqual(state);
    await assertInvariants(ledger);
  });

  test('that names other scopes than its reservation fails the call', async () => {
    const ledger = await withTwoBudgets();
    const { id } = await ledger.hold({ subject: SUBJECT });
    await ledger.commit(id, 4, { key: 'c' });
    const record = idempotencyKey.commit(ledger.tag, ledger.tenant, id, 'c');
    const values = await recordedValues(ledger.redis, record);
    await replaceRecord(ledger.redis, record, values.slice(0, -1));
    await expect(ledger.commit(id, 4, { key: 'c' })).rejects.toThrow(
      'names other scopes than its settlement',
    );
  });
});
