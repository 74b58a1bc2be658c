import { describe, expect, test } from '@jest/globals';
import { policyKey, policyRateKey, tenantKey } from '../../src/redis/keyspace.js';
import { shows } from '../compatibility/shows.js';
import { decide, makePolicy, updatePolicy } from '../support/admission-client.js';
import { clockAt } from '../support/fixed-clock.js';
import type { LedgerClient } from '../support/ledger-client.js';
import { assertInvariants, snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const MINUTE_MS = 60_000;

interface Limited {
  /** With its clock at the start of this minute. */
  readonly ledger: LedgerClient;
  readonly minute: number;
  readonly at: (ms: number) => LedgerClient;
  readonly policy: string;
}

async function limited(sets: Readonly<Record<string, string>>, budget = 1_000_000): Promise<Limited> {
  const made = await newLedger();
  await made.makeTenant();
  await made.makeBudget({ allocated: budget });
  const policy = await makePolicy(made, made.scope(), { sets });
  const minute = Math.ceil((await made.serverTime()) / MINUTE_MS);
  const at = (ms: number): LedgerClient => clockAt(made, minute * MINUTE_MS + ms);
  return { ledger: at(0), minute, at, policy };
}

const RESERVATIONS = 'max_reservations_per_minute';
const COMMITS = 'max_commits_per_minute';

describe('a limit on reservations', () => {
  test('refuses what exceeds it until the next minute of Redis begins, and changes nothing', async () => {
    shows('policy limits');
    const { ledger, at } = await limited({ [RESERVATIONS]: '2' });
    await ledger.hold();
    await at(30_000).hold();
    const before = await snapshot(ledger);
    expect(await at(30_001).reserve()).toEqual(['RATE_LIMITED', RESERVATIONS, '2', '29999']);
    expect(await at(59_999).reserve()).toEqual(['RATE_LIMITED', RESERVATIONS, '2', '1']);
    expect(await snapshot(ledger)).toEqual(before);
    await at(60_000).hold();
    await at(119_999).hold();
    expect(await at(119_999).reserve()).toEqual(['RATE_LIMITED', RESERVATIONS, '2', '1']);
    await assertInvariants(ledger);
  });

  test('counts neither replays, nor refusals, nor dry runs, nor decisions', async () => {
    const { ledger } = await limited({ [RESERVATIONS]: '2' }, 25);
    await ledger.hold({ key: 'first' });
    expect((await ledger.reserve({ key: 'first' })).slice(0, 2)).toEqual(['ALLOW', 'replay']);
    expect((await ledger.reserve({ amount: 16 }))[0]).toBe('BUDGET_EXCEEDED');
    expect((await ledger.reserve({ dryRun: true }))[0]).toBe('ALLOW_DRY_RUN');
    expect((await decide(ledger, { amount: 1 }))[0]).toBe('ALLOW');
    await ledger.hold({ key: 'second' });
    expect((await ledger.reserve({ amount: 1 }))[0]).toBe('RATE_LIMITED');
    expect((await ledger.reserve({ key: 'second' })).slice(0, 2)).toEqual(['ALLOW', 'replay']);
    expect((await decide(ledger, { amount: 1 }))[0]).toBe('ALLOW');
  });

  test('is a reason to deny a dry run, which replays, and a budget that cannot pay comes first', async () => {
    const { ledger } = await limited({ [RESERVATIONS]: '1' }, 25);
    await ledger.hold();
    expect(await ledger.reserve({ key: 'dry', dryRun: true })).toEqual(['DENY', 'fresh', 'LIMIT_EXCEEDED']);
    expect(await ledger.reserve({ key: 'dry', dryRun: true })).toEqual(['DENY', 'replay', 'LIMIT_EXCEEDED']);
    expect((await ledger.reserve({ amount: 16 }))[0]).toBe('BUDGET_EXCEEDED');
  });

  test('is that of the governing policy, which counts together all scopes that it governs', async () => {
    const { ledger } = await limited({ [RESERVATIONS]: '1' });
    await makePolicy(ledger, ledger.scope({ workspace: 'eng' }), {
      priority: 5,
      sets: { [RESERVATIONS]: '2' },
    });
    await ledger.hold({ subject: { workspace: 'eng' } });
    await ledger.hold({ subject: { workspace: 'eng', agent: 'bot' } });
    expect((await ledger.reserve({ subject: { workspace: 'eng' } }))[2]).toBe('2');
    await ledger.hold({ subject: { workspace: 'ops' } });
    expect((await ledger.reserve({ subject: { workspace: 'hr' } }))[2]).toBe('1');
  });

  test('applies immediately when it changes', async () => {
    const { ledger, policy } = await limited({ [RESERVATIONS]: '1' });
    await ledger.hold();
    await updatePolicy(ledger, policy, { [RESERVATIONS]: '2' });
    await ledger.hold();
    expect((await ledger.reserve())[0]).toBe('RATE_LIMITED');
    await updatePolicy(ledger, policy, { [RESERVATIONS]: '' });
    await ledger.hold();
  });

  test('applies to the calls of one run', async () => {
    const { ledger } = await limited({ [RESERVATIONS]: '3' });
    const real = ledger.over(ledger.redis);
    // The first call has its own run, and the minute may end after it.
    const replies = await Promise.all(Array.from({ length: 6 }, () => real.reserve()));
    const words = replies.map(([word]) => word);
    expect(words.slice(0, 3)).toEqual(['ALLOW', 'ALLOW', 'ALLOW']);
    expect(words.slice(4)).toEqual(['RATE_LIMITED', 'RATE_LIMITED']);
    await assertInvariants(ledger);
  });
});

describe('a limit on commits', () => {
  test('refuses what exceeds it until the next minute begins, and leaves the hold as it is', async () => {
    const { ledger, at } = await limited({ [COMMITS]: '1' });
    const [first, second] = [await ledger.hold(), await ledger.hold()];
    expect((await ledger.commit(first.id, 5, { key: 'k' }))[0]).toBe('COMMITTED');
    const before = await snapshot(ledger);
    expect(await at(1000).commit(second.id, 5)).toEqual(['RATE_LIMITED', COMMITS, '1', '59000']);
    expect(await snapshot(ledger)).toEqual(before);
    expect((await at(1000).commit(first.id, 5, { key: 'k' })).slice(0, 2)).toEqual(['COMMITTED', 'replay']);
    expect((await at(60_000).commit(second.id, 5))[0]).toBe('COMMITTED');
    await assertInvariants(ledger);
  });

  test('comes after every other reason to refuse, and never stops a release', async () => {
    const { ledger } = await limited({ [COMMITS]: '1' });
    const [first, second] = [
      await ledger.hold({ policy: 'REJECT' }),
      await ledger.hold({ policy: 'REJECT' }),
    ];
    expect((await ledger.commit(first.id, 5))[0]).toBe('COMMITTED');
    expect((await ledger.commit(first.id, 5))[0]).toBe('RESERVATION_FINALIZED');
    expect((await ledger.commit(second.id, 5, { unit: 'CREDITS' }))[0]).toBe('UNIT_MISMATCH');
    expect((await ledger.commit(second.id, 11))[0]).toBe('BUDGET_EXCEEDED');
    expect((await ledger.commit(second.id, 5))[0]).toBe('RATE_LIMITED');
    expect((await ledger.release(second.id))[0]).toBe('RELEASED');
  });

  test('that comes with a change also applies to earlier reservations', async () => {
    const { ledger, policy } = await limited({});
    const [first, second] = [await ledger.hold(), await ledger.hold()];
    await updatePolicy(ledger, policy, { [COMMITS]: '1' });
    expect((await ledger.commit(first.id, 5))[0]).toBe('COMMITTED');
    expect((await ledger.commit(second.id, 5))[0]).toBe('RATE_LIMITED');
  });

  test("makes commits read the tenant's policies only while one of them limits commits", async () => {
    const { ledger, policy } = await limited({ caps: 'c' });
    const limits = (): Promise<string | null> =>
      ledger.redis.hget(tenantKey(ledger.tag, ledger.tenant), 'commit_rates');
    expect(await limits()).toBeNull();
    const other = await makePolicy(ledger, `${ledger.scope()}/*`, { sets: { [COMMITS]: '5' } });
    expect(await limits()).toBe('1');
    await updatePolicy(ledger, policy, { [COMMITS]: '1' });
    await updatePolicy(ledger, policy, { [COMMITS]: '2' });
    expect(await limits()).toBe('2');
    await updatePolicy(ledger, policy, { status: 'DISABLED' });
    await updatePolicy(ledger, policy, { [COMMITS]: '' });
    expect(await limits()).toBe('1');
    await updatePolicy(ledger, policy, { status: 'ACTIVE' });
    await updatePolicy(ledger, other, { [COMMITS]: '' });
    expect(await limits()).toBeNull();
  });
});

test.each(['junk', '-1', '1.5', '007'])(
  'a counter that is damaged (%s) ends the call before anything changes',
  async (text) => {
    const { ledger, minute, policy } = await limited({ [RESERVATIONS]: '2' });
    await ledger.redis.set(policyRateKey(ledger.tag, policy, 'reservations', minute), text);
    const before = await snapshot(ledger);
    await expect(ledger.reserve()).rejects.toThrow('corrupt rate counter');
    expect(await snapshot(ledger)).toEqual(before);
    expect(await ledger.redis.exists(policyKey(ledger.tag, policy))).toBe(1);
  },
);
