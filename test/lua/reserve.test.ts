import { describe, expect, test } from '@jest/globals';
import { idempotencyKey } from '../../src/redis/keyspace.js';
import { shows } from '../compatibility/shows.js';
import { IDEMPOTENCY_TTL_MS } from '../support/ledger-client.js';
import { assertInvariants, isCrossing, snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const AGENT = { agent: 'Bot' };

describe('a reserve that is granted', () => {
  test('holds the amount at every budgeted scope, skips the others, and returns each balance, root first', async () => {
    shows('createReservation');
    const ledger = await newLedger();
    const subject = { workspace: 'Prod', agent: 'Bot' };
    const root = await ledger.makeBudget({ allocated: 1000 });
    const leaf = await ledger.makeBudget({ scope: ledger.scope(subject), allocated: 100 });
    const before = await ledger.serverTime();
    const reply = await ledger.reserve({ subject, amount: 60, ttlMs: 30_000, graceMs: 700 });
    const after = await ledger.serverTime();
    expect(reply.slice(0, 2)).toEqual(['ALLOW', 'fresh']);
    expect(reply.slice(4)).toEqual([
      '30000',
      'ALLOW_IF_AVAILABLE',
      root,
      '940,60,0,1000,0,0,0',
      leaf,
      '40,60,0,100,0,0,0',
    ]);
    const [, , id, expiresAt] = reply as [string, string, string, string];
    expect(Number(expiresAt)).toBeGreaterThanOrEqual(before + 30_000);
    expect(Number(expiresAt)).toBeLessThanOrEqual(after + 30_000);
    expect(await ledger.ttlScore(id)).toBe(String(Number(expiresAt) + 700));
    expect(await ledger.record(id)).toMatchObject({
      st: 'ACTIVE',
      tn: ledger.tenant,
      un: 'TOKENS',
      am: '60',
      op: 'ALLOW_IF_AVAILABLE',
      bm: '101',
      ex: expiresAt,
      gr: '700',
      mx: '10',
      ki: 'key_1',
      ws: 'Prod',
      ag: 'Bot',
      ca: String(Number(expiresAt) - 30_000),
    });
    expect((await assertInvariants(ledger)).events).toEqual([]);
  });

  test('of amount 0 is a live hold', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 0 });
    expect((await ledger.reserve({ amount: 0 })).slice(0, 2)).toEqual(['ALLOW', 'fresh']);
    expect((await assertInvariants(ledger)).ttl.size).toBe(1);
  });

  test('that takes the last of a budget reports once that it is exhausted', async () => {
    const ledger = await newLedger();
    const scope = await ledger.makeBudget({ allocated: 10 });
    const { id } = await ledger.hold({ amount: 10 });
    expect((await ledger.reserve({ amount: 0 }))[0]).toBe('ALLOW');
    const events = (await assertInvariants(ledger)).events.filter((event) => !isCrossing(event));
    expect(events).toHaveLength(1);
    expect(events[0]?.fields).toMatchObject({
      ty: 'budget.exhausted',
      tn: ledger.tenant,
      sc: scope,
      reservation_id: id,
      remaining: '0',
      reserved: '10',
      allocated: '10',
      rq: 'req_reserve',
      ki: 'key_1',
    });
  });

  test('takes lease, cap and extensions from its tenant, and the protocol defaults without one', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    expect((await ledger.reserve({ ttlMs: '' }))[4]).toBe('60000');
    await ledger.makeTenant({
      default_reservation_ttl_ms: '30000',
      max_reservation_ttl_ms: '40000',
      max_reservation_extensions: '2',
    });
    const reply = await ledger.reserve({ ttlMs: '' });
    expect(reply[4]).toBe('30000');
    expect(await ledger.record(reply[2] as string)).toMatchObject({ mx: '2' });
    expect((await ledger.reserve({ ttlMs: 60_000 }))[4]).toBe('40000');
  });

  test("captures the policy: the request's, else the deepest budget's, else the tenant's, else the default", async () => {
    const ledger = await newLedger();
    const scope = ledger.scope(AGENT);
    await ledger.makeBudget();
    await ledger.makeBudget({ scope });
    const policy = async (asked = ''): Promise<string | undefined> =>
      (await ledger.reserve({ subject: AGENT, amount: 1, policy: asked }))[5];
    expect(await policy()).toBe('ALLOW_IF_AVAILABLE');
    await ledger.makeTenant({ default_commit_overage_policy: 'REJECT' });
    expect(await policy()).toBe('REJECT');
    await ledger.makeBudget({ policy: 'ALLOW_WITH_OVERDRAFT' });
    expect(await policy()).toBe('ALLOW_WITH_OVERDRAFT');
    await ledger.redis.hset(ledger.budgetKeyOf(scope), 'commit_overage_policy', 'ALLOW_IF_AVAILABLE');
    expect(await policy()).toBe('ALLOW_IF_AVAILABLE');
    expect(await policy('REJECT')).toBe('REJECT');
  });
});

describe('a dry run', () => {
  test('that would be granted shows the balances it would leave, changes none, and replays them', async () => {
    shows('dry run');
    const ledger = await newLedger();
    const scope = await ledger.makeBudget();
    const before = await snapshot(ledger);
    const reply = await ledger.reserve({ amount: 60, dryRun: true, key: 'dry', ttlMs: 1000 });
    expect(reply).toEqual(['ALLOW_DRY_RUN', 'fresh', scope, '940,60,0,1000,0,0,0']);
    const after = await snapshot(ledger);
    expect(after.size).toBe(before.size + 1);
    expect(after.delete(idempotencyKey.reserve(ledger.tag, ledger.tenant, 'dry'))).toBe(true);
    expect(after).toEqual(before);
    await ledger.hold({ amount: 500 });
    expect(await ledger.reserve({ amount: 60, dryRun: true, key: 'dry', ttlMs: 1000 })).toEqual([
      'ALLOW_DRY_RUN',
      'replay',
      scope,
      '940,60,0,1000,0,0,0',
    ]);
  });

  test('that would be refused answers DENY with the reason, and replays it when the budget has changed', async () => {
    const ledger = await newLedger();
    expect(await ledger.reserve({ dryRun: true, key: 'a' })).toEqual(['DENY', 'fresh', 'BUDGET_NOT_FOUND']);
    await ledger.makeBudget({ allocated: 5 });
    expect(await ledger.reserve({ dryRun: true, key: 'a' })).toEqual(['DENY', 'replay', 'BUDGET_NOT_FOUND']);
    expect(await ledger.reserve({ dryRun: true })).toEqual(['DENY', 'fresh', 'BUDGET_EXCEEDED']);
    await ledger.makeTenant({ status: 'CLOSED' });
    expect(await ledger.reserve({ dryRun: true })).toEqual(['DENY', 'fresh', 'TENANT_CLOSED']);
  });

  test('in a unit without a budget is an error, not a DENY', async () => {
    const ledger = await newLedger();
    const scope = await ledger.makeBudget({ unit: 'CREDITS' });
    expect(await ledger.reserve({ dryRun: true })).toEqual(['UNIT_MISMATCH', scope, 'CREDITS']);
  });

  test('shares its key space with live reserves, in both directions', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    await ledger.reserve({ key: 'a', dryRun: true });
    expect(await ledger.reserve({ key: 'a' })).toEqual(['IDEMPOTENCY_MISMATCH']);
    await ledger.reserve({ key: 'b' });
    expect(await ledger.reserve({ key: 'b', dryRun: true })).toEqual(['IDEMPOTENCY_MISMATCH']);
    expect((await assertInvariants(ledger)).holds.size).toBe(1);
  });
});

describe('a repeated reserve', () => {
  test('returns the first outcome and its balances, with what is left of the lease now', async () => {
    shows('replay');
    const ledger = await newLedger();
    const scope = await ledger.makeBudget();
    const first = await ledger.reserve({ key: 'a' });
    await ledger.hold({ amount: 100 });
    const state = await snapshot(ledger);
    const again = await ledger.reserve({ key: 'a' });
    const now = await ledger.serverTime();
    expect([again[0], again[1], ...again.slice(2, 4), ...again.slice(5)]).toEqual([
      'ALLOW',
      'replay',
      ...first.slice(2, 4),
      'ALLOW_IF_AVAILABLE',
      scope,
      '990,10,0,1000,0,0,0',
    ]);
    expect(Number(again[4])).toBeLessThanOrEqual(600_000);
    expect(Number(again[4])).toBeGreaterThanOrEqual(Number(first[3]) - now);
    expect(await snapshot(ledger)).toEqual(state);
  });

  test('reports 0 ms left when the hold has ended, and survives a freeze and a close', async () => {
    shows('replay after close');
    const ledger = await newLedger();
    await ledger.makeBudget();
    const { id } = await ledger.hold({ key: 'a' });
    await ledger.release(id);
    await ledger.makeBudget({ status: 'FROZEN' });
    await ledger.makeTenant({ status: 'CLOSED' });
    expect((await ledger.reserve({ key: 'a' })).slice(0, 5)).toEqual([
      'ALLOW',
      'replay',
      id,
      expect.anything(),
      '0',
    ]);
  });

  test('with another payload is a mismatch and changes nothing', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    await ledger.hold({ key: 'a', amount: 10 });
    const state = await snapshot(ledger);
    expect(await ledger.reserve({ key: 'a', amount: 11 })).toEqual(['IDEMPOTENCY_MISMATCH']);
    expect(await snapshot(ledger)).toEqual(state);
  });

  test("finds its hold as long as it can live, even if it was extended beyond the key's lifetime", async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    const lifetime = (): Promise<number> =>
      ledger.redis.pttl(idempotencyKey.reserve(ledger.tag, ledger.tenant, 'a'));
    const { id } = await ledger.hold({ key: 'a', idempotencyTtlMs: 1000, ttlMs: 900_000, graceMs: 60_000 });
    expect(await lifetime()).toBeGreaterThan(900_000);
    await ledger.extend(id, 10_000_000, { idempotencyTtlMs: 1000 });
    expect(await lifetime()).toBeGreaterThan(10_900_000);
    await ledger.extend(id, 1, { idempotencyTtlMs: 1000 });
    expect(await lifetime()).toBeGreaterThan(10_900_000);
  });

  test('is remembered no shorter because its hold was extended', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    const { id, key } = await ledger.hold();
    await ledger.extend(id, 1000, { idempotencyTtlMs: 1000 });
    const lifetime = await ledger.redis.pttl(idempotencyKey.reserve(ledger.tag, ledger.tenant, key));
    expect(lifetime).toBeGreaterThan(IDEMPOTENCY_TTL_MS - 60_000);
  });

  test('of a refused one is evaluated again: refusals are not remembered', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget({ allocated: 5 });
    expect((await ledger.reserve({ key: 'a' }))[0]).toBe('BUDGET_EXCEEDED');
    await ledger.makeBudget({ allocated: 50 });
    expect((await ledger.reserve({ key: 'a' })).slice(0, 2)).toEqual(['ALLOW', 'fresh']);
  });
});
