import { describe, expect, test } from '@jest/globals';
import { budgetKey } from '../../src/redis/keyspace.js';
import { shows } from '../compatibility/shows.js';
import { decide, makePolicy } from '../support/admission-client.js';
import { DEFAULT_UNIT, type LedgerClient } from '../support/ledger-client.js';
import { assertInvariants, readLedger, snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();

async function made(mode?: string): Promise<LedgerClient> {
  const ledger = await newLedger();
  await ledger.makeTenant(mode === undefined ? {} : { observe_mode: mode });
  await ledger.makeBudget({ allocated: 100 });
  return ledger;
}

async function eventsOf(ledger: LedgerClient): Promise<Readonly<Record<string, string>>[]> {
  return (await readLedger(ledger)).events.map(({ fields }) => fields);
}

async function told(ledger: LedgerClient): Promise<string[]> {
  return (await eventsOf(ledger)).map(({ ty }) => ty as string);
}

/** Everything except the events with their indexes, and the idempotency records. */
async function stateOf(ledger: LedgerClient): Promise<Map<string, string>> {
  const all = await snapshot(ledger, 'events');
  return new Map([...all].filter(([key]) => !/^\{\w+\}(?:i|co):/.test(key)));
}

describe('a reserve in observe mode', () => {
  test('changes no byte but its idempotency record and its event', async () => {
    shows('observe mode side effects');
    const ledger = await made('OBSERVE');
    await ledger.hold({ amount: 10, observe: 'ENFORCE' });
    const before = await stateOf(ledger);
    expect((await ledger.reserve({ amount: 90, key: 'a' })).slice(0, 2)).toEqual([
      'ALLOW_DRY_RUN',
      'observed',
    ]);
    expect((await ledger.reserve({ amount: 91, key: 'd' })).slice(0, 3)).toEqual([
      'DENY',
      'observed',
      'BUDGET_EXCEEDED',
    ]);
    expect((await ledger.reserve({ amount: 90, key: 'a' }))[1]).toBe('replay');
    expect((await ledger.reserve({ amount: 91, key: 'd' }))[1]).toBe('replay');
    expect(await stateOf(ledger)).toEqual(before);
    expect(await told(ledger)).toEqual(['reservation.observed_allowed', 'reservation.observed_denied']);
  });

  test('sees the changes of earlier calls in its run, and later calls do not see it', async () => {
    shows('observe mode side effects');
    const ledger = await made();
    const modes = ['', 'OBSERVE', '', 'OBSERVE', 'OBSERVE', '', '', 'OBSERVE'];
    // The fourth still fits, and the last one does not.
    const amounts = [40, 60, 30, 30, 31, 20, 10, 1];
    const replies = await Promise.all(
      modes.map((observe, index) => ledger.reserve({ observe, amount: amounts[index] as number })),
    );
    expect(replies.map(([word]) => word)).toEqual([
      'ALLOW',
      'ALLOW_DRY_RUN',
      'ALLOW',
      'ALLOW_DRY_RUN',
      'DENY',
      'ALLOW',
      'ALLOW',
      'DENY',
    ]);
    expect((await ledger.figures()).split(',').slice(0, 2)).toEqual(['0', '100']);
    expect((await told(ledger)).filter((type) => type.includes('observed'))).toEqual([
      'reservation.observed_allowed',
      'reservation.observed_allowed',
      'reservation.observed_denied',
      'reservation.observed_denied',
    ]);
    await assertInvariants(ledger);
  });

  test('reports every denial: of a closed tenant, without a budget, and by a limit', async () => {
    shows('observed denials');
    const ledger = await made('OBSERVE');
    await ledger.hold({ observe: 'ENFORCE' });
    expect((await ledger.reserve({ maxLive: 1 }))[2]).toBe('LIMIT_EXCEEDED');
    await ledger.redis.del(budgetKey(ledger.tag, DEFAULT_UNIT, ledger.scope()));
    expect((await ledger.reserve())[2]).toBe('BUDGET_NOT_FOUND');
    await ledger.makeTenant({ observe_mode: 'OBSERVE', status: 'CLOSED' });
    expect((await ledger.reserve())[2]).toBe('TENANT_CLOSED');
    const events = await eventsOf(ledger);
    expect(events.map(({ ty, reason_code: reason, sc }) => [ty, reason, sc])).toEqual(
      ['LIMIT_EXCEEDED', 'BUDGET_NOT_FOUND', 'TENANT_CLOSED'].map((reason) => [
        'reservation.observed_denied',
        reason,
        ledger.scope(),
      ]),
    );
  });

  test('of a suspended tenant or in the wrong unit is refused as usual', async () => {
    const ledger = await made('OBSERVE');
    expect((await ledger.reserve({ unit: 'CREDITS' }))[0]).toBe('UNIT_MISMATCH');
    await ledger.makeTenant({ observe_mode: 'OBSERVE', status: 'SUSPENDED' });
    expect(await ledger.reserve()).toEqual(['TENANT_SUSPENDED']);
    expect(await told(ledger)).toEqual([]);
  });

  test('expires overdue holds that are in its way, as a dry run does', async () => {
    const ledger = await made('OBSERVE');
    const { id } = await ledger.hold({ amount: 100, observe: 'ENFORCE' });
    await ledger.makeOverdue(id);
    expect((await ledger.reserve({ amount: 100, key: 'k' }))[0]).toBe('RECLAIMED');
    expect((await ledger.reserve({ amount: 100, key: 'k' }))[0]).toBe('ALLOW_DRY_RUN');
  });

  test('is not reported if sampling skips it, unless it is denied', async () => {
    shows('observed allowances');
    const ledger = await made('OBSERVE');
    expect((await ledger.reserve({ observe: '|-' }))[1]).toBe('observed');
    expect(await told(ledger)).toEqual([]);
    await ledger.reserve({ observe: '|0.25' });
    await ledger.reserve({ observe: 'OBSERVE|0.25' });
    await ledger.reserve({ observe: '|-', amount: 1000 });
    expect((await ledger.reserve({ observe: 'ENFORCE|-' }))[0]).toBe('ALLOW');
    const events = await eventsOf(ledger);
    expect(events.map(({ ty, sample_rate: rate }) => [ty, rate])).toEqual([
      ['reservation.observed_allowed', '0.25'],
      ['reservation.observed_allowed', '0.25'],
      ['reservation.observed_denied', undefined],
    ]);
  });

  test('whose tenant has an unknown mode fails, and changes nothing', async () => {
    const ledger = await made('SHADOW');
    const before = await snapshot(ledger);
    await expect(ledger.reserve()).rejects.toThrow('corrupt tenant record');
    expect(await snapshot(ledger)).toEqual(before);
    expect((await ledger.reserve({ observe: 'OBSERVE' }))[1]).toBe('observed');
  });
});

test('a decision is the same as for a tenant that enforces', async () => {
  const ledger = await made('OBSERVE');
  await makePolicy(ledger, ledger.scope(), { sets: { denied_action_kinds: '["code.exec"]' } });
  expect((await decide(ledger, { amount: 1000 }))[0]).toBe('DENY');
  expect(await told(ledger)).toEqual(['policy.created', 'reservation.denied']);
});

test('a tenant that never had a mode has denials without a correlation id', async () => {
  const [plain, enforcing] = [await made(), await made('ENFORCE')];
  for (const ledger of [plain, enforcing]) {
    await ledger.reserve({ amount: 1000 });
  }
  expect((await eventsOf(plain)).map(({ ty, co }) => [ty, co])).toEqual([['reservation.denied', undefined]]);
  expect((await eventsOf(enforcing))[0]?.co).toMatch(/^denial:/);
});
