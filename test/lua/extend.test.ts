import { describe, expect, test } from '@jest/globals';
import { shows } from '../compatibility/shows.js';
import { damageHold } from '../support/hold-record.js';
import type { LedgerClient } from '../support/ledger-client.js';
import { assertInvariants, snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();

async function refused(ledger: LedgerClient, id: string, byMs = 1000, options = {}): Promise<string[]> {
  const before = await snapshot(ledger);
  const reply = await ledger.extend(id, byMs, options);
  expect(await snapshot(ledger)).toEqual(before);
  return reply;
}

describe('an extension', () => {
  test('counts from the current expiry, moves the deadline in the index, and leaves the amounts', async () => {
    shows('extendReservation');
    const ledger = await newLedger();
    await ledger.makeBudget();
    const { id, expiresAt } = await ledger.hold({ amount: 10, graceMs: 700 });
    const reply = await ledger.extend(id, 5000);
    const now = await ledger.serverTime();
    expect(reply.slice(0, 3)).toEqual(['ACTIVE', 'fresh', String(expiresAt + 5000)]);
    expect(Number(reply[3])).toBeGreaterThanOrEqual(expiresAt + 5000 - now);
    expect(Number(reply[3])).toBeLessThanOrEqual(605_000);
    expect(await ledger.ttlScore(id)).toBe(String(expiresAt + 5700));
    expect(await ledger.figures()).toBe('990,10,0,1000,0,0,0');
    expect(await ledger.record(id)).toMatchObject({
      st: 'ACTIVE',
      ex: String(expiresAt + 5000),
      xc: '1',
      x1: expect.stringMatching(/^\d{13}\+5000$/),
    });
    expect((await assertInvariants(ledger)).events).toEqual([]);
  });

  test('of 1 ms and of 24 hours are both granted without a tenant record', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    const { id, expiresAt } = await ledger.hold();
    expect((await ledger.extend(id, 1))[2]).toBe(String(expiresAt + 1));
    expect((await ledger.extend(id, 86_400_000))[2]).toBe(String(expiresAt + 86_400_001));
    expect(await ledger.record(id)).toMatchObject({ xc: '2', x2: expect.stringMatching(/\+86400000$/) });
  });

  test("grants at most the tenant's longest lease, and the reply says how much", async () => {
    const ledger = await newLedger();
    await ledger.makeTenant({ max_reservation_ttl_ms: '10000' });
    await ledger.makeBudget();
    const { id, expiresAt } = await ledger.hold();
    expect((await ledger.extend(id, 86_400_000))[2]).toBe(String(expiresAt + 10_000));
    expect(await ledger.record(id)).toMatchObject({ x1: expect.stringMatching(/\+10000$/) });
  });

  test("is allowed as often as the tenant's setting said when the hold was created", async () => {
    const ledger = await newLedger();
    await ledger.makeTenant({ max_reservation_extensions: '2' });
    await ledger.makeBudget();
    const { id } = await ledger.hold();
    await ledger.makeTenant({ max_reservation_extensions: '99' });
    expect((await ledger.extend(id, 1))[0]).toBe('ACTIVE');
    expect((await ledger.extend(id, 1))[0]).toBe('ACTIVE');
    expect(await refused(ledger, id)).toEqual(['MAX_EXTENSIONS_EXCEEDED', '2']);
    await ledger.makeTenant({ max_reservation_extensions: '0' });
    expect(await refused(ledger, (await ledger.hold()).id)).toEqual(['MAX_EXTENSIONS_EXCEEDED', '0']);
  });

  test('is allowed 10 times by default', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    const { id } = await ledger.hold();
    for (let count = 0; count < 10; count += 1) {
      expect((await ledger.extend(id, 1))[0]).toBe('ACTIVE');
    }
    expect(await refused(ledger, id)).toEqual(['MAX_EXTENSIONS_EXCEEDED', '10']);
    await assertInvariants(ledger);
  });
});

describe('a repeated extension', () => {
  test('returns the first expiry with what is left of it now, and extends nothing', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    const { id, expiresAt } = await ledger.hold();
    await ledger.extend(id, 5000, { key: 'x' });
    await ledger.extend(id, 5000);
    const state = await snapshot(ledger);
    const again = await ledger.extend(id, 5000, { key: 'x' });
    expect(again.slice(0, 3)).toEqual(['ACTIVE', 'replay', String(expiresAt + 5000)]);
    expect(Number(again[3])).toBeGreaterThan(0);
    expect(Number(again[3])).toBeLessThanOrEqual(605_000);
    expect(await ledger.extend(id, 5001, { key: 'x' })).toEqual(['IDEMPOTENCY_MISMATCH']);
    expect(await snapshot(ledger)).toEqual(state);
  });

  test('reports 0 ms left when the hold has ended, and also when its tenant is closed', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    const { id, expiresAt } = await ledger.hold();
    await ledger.extend(id, 5000, { key: 'x' });
    await ledger.release(id);
    await ledger.makeTenant({ status: 'CLOSED' });
    expect(await ledger.extend(id, 5000, { key: 'x' })).toEqual([
      'ACTIVE',
      'replay',
      String(expiresAt + 5000),
      '0',
    ]);
  });
});

describe('an extension that is refused changes no byte', () => {
  test('in the grace: a lease that ended cannot be resumed, though it may still be settled', async () => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    const { id } = await ledger.hold();
    await ledger.putInGrace(id);
    expect(await refused(ledger, id)).toEqual(['RESERVATION_EXPIRED']);
    expect((await ledger.commit(id, 1))[0]).toBe('COMMITTED');
  });

  test.each(['xc', 'mx'])('when its %s is damaged: a hold must not live for ever', async (field) => {
    const ledger = await newLedger();
    await ledger.makeBudget();
    const { id } = await ledger.hold();
    await damageHold(ledger.redis, ledger.reservationKeyOf(id), field, 'x');
    expect((await refused(ledger, id))[0]).toBe('MAX_EXTENSIONS_EXCEEDED');
  });

  test('with an error when its tenant cannot be trusted', async () => {
    const corruptions: ((ledger: LedgerClient) => Promise<unknown>)[] = [
      (ledger) => ledger.makeTenant({ status: 'x' }),
      (ledger) => ledger.makeTenant({ max_reservation_ttl_ms: 'x' }),
    ];
    for (const corrupt of corruptions) {
      const ledger = await newLedger();
      await ledger.makeBudget();
      const { id } = await ledger.hold();
      await corrupt(ledger);
      const before = await snapshot(ledger);
      await expect(ledger.extend(id, 1000)).rejects.toThrow();
      expect(await snapshot(ledger)).toEqual(before);
    }
  });
});

test('an extension after the grace is refused, and the hold is returned by the usual transition', async () => {
  const ledger = await newLedger();
  await ledger.makeBudget();
  const { id } = await ledger.hold({ amount: 100 });
  const deadline = await ledger.makeOverdue(id);
  expect((await ledger.extend(id, 1000)).slice(0, 4)).toEqual([
    'RESERVATION_EXPIRED',
    'now',
    ledger.tenant,
    String(deadline),
  ]);
  expect(await refused(ledger, id)).toEqual(['RESERVATION_EXPIRED']);
  expect(await ledger.figures()).toBe('1000,0,0,1000,0,0,0');
  await assertInvariants(ledger);
});

test('an extension that meets an overdue hold with a malformed record quarantines it', async () => {
  const ledger = await newLedger();
  await ledger.makeBudget();
  const { id } = await ledger.hold();
  await ledger.makeOverdue(id);
  await damageHold(ledger.redis, ledger.reservationKeyOf(id), 'bm', '111');
  expect(await ledger.extend(id, 1000)).toEqual(['QUARANTINED', 'MALFORMED_SCOPES', ledger.tenant]);
});
