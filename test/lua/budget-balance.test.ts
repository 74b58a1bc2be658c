import { describe, expect, test } from '@jest/globals';
import type { LedgerClient } from '../support/ledger-client.js';
import { snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const LONG = '4611686018427387904';

const OPERATIONS: [string, (ledger: LedgerClient, id: string) => Promise<string[]>][] = [
  ['commit of the estimate', (ledger, id) => ledger.commit(id, 10)],
  ['commit beyond the estimate', (ledger, id) => ledger.commit(id, 11)],
  ['release', (ledger, id) => ledger.release(id)],
  ['reserve', (ledger) => ledger.reserve()],
];

/**
 * Violations of remaining = allocated - spent - reserved - debt, or of the rule that only remaining may be
 * negative.
 */
const DAMAGES: [string, Record<string, string>][] = [
  ['a figure that is too large by one', { spent: '1' }],
  ['long figures, one of which is too large by one', { allocated: LONG, remaining: LONG }],
];

describe.each(DAMAGES)('a budget with %s', (_, figures) => {
  test.each(OPERATIONS)(
    'stops a %s with an error that names it, before anything is written',
    async (_name, run) => {
      const ledger = await newLedger();
      await ledger.makeBudget();
      const { id } = await ledger.hold({ amount: 10 });
      await ledger.redis.hset(ledger.budgetKeyOf(), figures);
      const before = await snapshot(ledger);
      await expect(run(ledger, id)).rejects.toThrow(
        `corrupt budget record ${ledger.budgetKeyOf()}: remaining is not allocated - spent - reserved - debt`,
      );
      expect(await snapshot(ledger)).toEqual(before);
    },
  );
});

test('a budget of long figures that is in balance is reserved from and settled', async () => {
  const ledger = await newLedger();
  await ledger.makeBudget({ allocated: LONG });
  const { id } = await ledger.hold({ amount: '4611686018427387000' });
  expect((await ledger.commit(id, '4611686018427386999'))[0]).toBe('COMMITTED');
  expect(await ledger.figures()).toBe(`905,0,4611686018427386999,${LONG},0,0,0`);
});
