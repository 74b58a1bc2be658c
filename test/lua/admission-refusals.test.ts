import { describe, expect, test } from '@jest/globals';
import type { Unit } from '../../src/ledger/amount.js';
import { idempotencyKey } from '../../src/redis/keyspace.js';
import type { Reply } from '../../src/redis/scripts.js';
import { shows } from '../compatibility/shows.js';
import { debit, decide } from '../support/admission-client.js';
import type { BudgetOptions, LedgerClient } from '../support/ledger-client.js';
import { readLedger, snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

/*
 * The order in which a reserve, a dry run, a decision and a direct debit check for refusals. Each row has the
 * fault that the reply reports, and faults that are checked later, so a table lists the refusals from first
 * to last.
 */

const newLedger = useLedger();
const AGENT = { agent: 'bot' };

/** The faults of a request of 10 TOKENS for an agent. */
interface Faults {
  /** An earlier request with the same idempotency key was granted. */
  readonly usedKey?: true;
  readonly tenant?: Readonly<Record<string, string>>;
  readonly root?: BudgetOptions;
  readonly leaf?: BudgetOptions;
  /** The units of other budgets at a scope that has none in TOKENS. */
  readonly otherUnits?: { readonly root?: readonly Unit[]; readonly leaf?: readonly Unit[] };
  readonly amount?: number;
  /**
   * False if one more live reservation is allowed. Otherwise the tenant already has its maximum, provided
   * that there is a budget.
   */
  readonly full?: false;
}

/** The reply; then the denial event with its reason, its scope and what remains there; then the faults. */
type Row = readonly [answer: string, told: string, faults: Faults];

const CLOSED = { status: 'CLOSED' };
const SUSPENDED = { status: 'SUSPENDED' };
const ODD_POLICY = { default_commit_overage_policy: 'MAYBE' };

const GOOD: BudgetOptions = { allocated: 1000 };
const SHORT: BudgetOptions = { allocated: 5 };
const INDEBTED: BudgetOptions = { allocated: 5, debt: 2 };
const OVER_LIMIT: BudgetOptions = { allocated: 5, debt: 9, isOverLimit: true };
const FROZEN: BudgetOptions = { allocated: 5, debt: 2, status: 'FROZEN' };
const SHUT: BudgetOptions = { allocated: 5, debt: 2, status: 'CLOSED' };
const OTHER_UNITS = { root: ['CREDITS'], leaf: ['USD_MICROCENTS', 'RISK_POINTS'] } as const;
const ROOT_UNITS = { root: ['CREDITS', 'RISK_POINTS'] } as const;

// prettier-ignore
const RESERVE: readonly Row[] = [
  ['IDEMPOTENCY_MISMATCH', '', { usedKey: true, tenant: CLOSED, root: OVER_LIMIT, leaf: FROZEN }],
  ['TENANT_CLOSED', 'TENANT_CLOSED leaf', { tenant: CLOSED, root: OVER_LIMIT, leaf: FROZEN }],
  ['TENANT_CLOSED', 'TENANT_CLOSED leaf', { tenant: CLOSED, otherUnits: OTHER_UNITS }],
  ['TENANT_CLOSED', 'TENANT_CLOSED leaf', { tenant: CLOSED }],
  ['TENANT_CLOSED', 'TENANT_CLOSED leaf', { tenant: CLOSED, root: GOOD }],
  ['TENANT_SUSPENDED', '', { tenant: SUSPENDED, root: OVER_LIMIT, leaf: FROZEN }],
  ['TENANT_SUSPENDED', '', { tenant: SUSPENDED }],
  ['NOT_FOUND', 'BUDGET_NOT_FOUND leaf', { tenant: ODD_POLICY }],
  ['UNIT_MISMATCH leaf USD_MICROCENTS RISK_POINTS', '', { tenant: ODD_POLICY, otherUnits: OTHER_UNITS }],
  ['UNIT_MISMATCH root CREDITS RISK_POINTS', '', { otherUnits: ROOT_UNITS }],
  ['INVALID_POLICY MAYBE', '', { tenant: ODD_POLICY, root: OVER_LIMIT, leaf: FROZEN }],
  ['BUDGET_CLOSED root 3', 'BUDGET_CLOSED root 3', { root: SHUT, leaf: FROZEN }],
  ['BUDGET_FROZEN root 3', 'BUDGET_FROZEN root 3', { root: FROZEN, leaf: SHUT }],
  ['BUDGET_FROZEN leaf 3', 'BUDGET_FROZEN leaf 3', { root: OVER_LIMIT, leaf: FROZEN }],
  ['BUDGET_CLOSED leaf 3', 'BUDGET_CLOSED leaf 3', { root: OVER_LIMIT, leaf: SHUT }],
  ['OVERDRAFT_LIMIT_EXCEEDED root -4', 'OVERDRAFT_LIMIT_EXCEEDED root -4', { root: OVER_LIMIT, leaf: INDEBTED }],
  ['OVERDRAFT_LIMIT_EXCEEDED leaf -4', 'OVERDRAFT_LIMIT_EXCEEDED leaf -4', { root: INDEBTED, leaf: OVER_LIMIT }],
  ['OVERDRAFT_LIMIT_EXCEEDED root 1000', 'OVERDRAFT_LIMIT_EXCEEDED root 1000', { root: { isOverLimit: true }, amount: 0 }],
  ['OVERDRAFT_LIMIT_EXCEEDED root 989', 'OVERDRAFT_LIMIT_EXCEEDED root 989', { root: { debt: 11, overdraftLimit: 10 }, amount: 0 }],
  ['DEBT_OUTSTANDING leaf 3', 'DEBT_OUTSTANDING leaf 3', { root: SHORT, leaf: INDEBTED }],
  ['DEBT_OUTSTANDING root 990', 'DEBT_OUTSTANDING root 990', { root: { debt: 10 }, amount: 1 }],
  ['BUDGET_EXCEEDED root 5', 'BUDGET_EXCEEDED root 5', { root: SHORT, leaf: SHORT }],
  ['BUDGET_EXCEEDED leaf 5', 'BUDGET_EXCEEDED leaf 5', { root: GOOD, leaf: SHORT }],
  ['LIMIT_EXCEEDED live_reservations 1 1', '', { root: GOOD, leaf: GOOD }],
  ['ALLOW', '', { root: { debt: 10, overdraftLimit: 10 }, amount: 1, full: false }],
];

// prettier-ignore
const DRY_RUN: readonly Row[] = [
  ['IDEMPOTENCY_MISMATCH', '', { usedKey: true, tenant: CLOSED, root: OVER_LIMIT, leaf: FROZEN }],
  ['DENY TENANT_CLOSED', 'TENANT_CLOSED leaf', { tenant: CLOSED, root: OVER_LIMIT, leaf: FROZEN }],
  ['DENY TENANT_CLOSED', 'TENANT_CLOSED leaf', { tenant: CLOSED, otherUnits: OTHER_UNITS }],
  ['TENANT_SUSPENDED', '', { tenant: SUSPENDED, root: OVER_LIMIT, leaf: FROZEN }],
  ['DENY BUDGET_NOT_FOUND', 'BUDGET_NOT_FOUND leaf', { tenant: ODD_POLICY }],
  ['UNIT_MISMATCH leaf USD_MICROCENTS RISK_POINTS', '', { tenant: ODD_POLICY, otherUnits: OTHER_UNITS }],
  ['INVALID_POLICY MAYBE', '', { tenant: ODD_POLICY, root: OVER_LIMIT, leaf: FROZEN }],
  ['DENY BUDGET_FROZEN', 'BUDGET_FROZEN leaf 3', { root: OVER_LIMIT, leaf: FROZEN }],
  ['DENY BUDGET_CLOSED', 'BUDGET_CLOSED leaf 3', { root: OVER_LIMIT, leaf: SHUT }],
  ['DENY OVERDRAFT_LIMIT_EXCEEDED', 'OVERDRAFT_LIMIT_EXCEEDED root -4', { root: OVER_LIMIT, leaf: INDEBTED }],
  ['DENY DEBT_OUTSTANDING', 'DEBT_OUTSTANDING leaf 3', { root: SHORT, leaf: INDEBTED }],
  ['DENY BUDGET_EXCEEDED', 'BUDGET_EXCEEDED root 5', { root: SHORT, leaf: SHORT }],
  ['DENY LIMIT_EXCEEDED', '', { root: GOOD, leaf: GOOD }],
];

// prettier-ignore
const DECIDE: readonly Row[] = [
  ['IDEMPOTENCY_MISMATCH', '', { usedKey: true, tenant: CLOSED, root: OVER_LIMIT, leaf: FROZEN }],
  ['DENY TENANT_CLOSED', 'TENANT_CLOSED leaf', { tenant: CLOSED, root: OVER_LIMIT, leaf: FROZEN }],
  ['DENY TENANT_CLOSED', 'TENANT_CLOSED leaf', { tenant: CLOSED, otherUnits: OTHER_UNITS }],
  ['DENY TENANT_CLOSED', 'TENANT_CLOSED leaf', { tenant: CLOSED }],
  ['TENANT_SUSPENDED', '', { tenant: SUSPENDED, root: OVER_LIMIT, leaf: FROZEN }],
  ['DENY BUDGET_NOT_FOUND', 'BUDGET_NOT_FOUND leaf', { tenant: ODD_POLICY }],
  ['UNIT_MISMATCH leaf USD_MICROCENTS RISK_POINTS', '', { tenant: ODD_POLICY, otherUnits: OTHER_UNITS }],
  ['UNIT_MISMATCH root CREDITS RISK_POINTS', '', { otherUnits: ROOT_UNITS }],
  // A decision ignores overage policies, because it holds nothing.
  ['DENY BUDGET_FROZEN', 'BUDGET_FROZEN leaf 3', { tenant: ODD_POLICY, root: OVER_LIMIT, leaf: FROZEN }],
  ['DENY BUDGET_CLOSED', 'BUDGET_CLOSED leaf 3', { root: OVER_LIMIT, leaf: SHUT }],
  ['DENY OVERDRAFT_LIMIT_EXCEEDED', 'OVERDRAFT_LIMIT_EXCEEDED root -4', { root: OVER_LIMIT, leaf: INDEBTED }],
  ['DENY OVERDRAFT_LIMIT_EXCEEDED', 'OVERDRAFT_LIMIT_EXCEEDED root 5', { root: { allocated: 5, isOverLimit: true }, leaf: INDEBTED }],
  ['DENY DEBT_OUTSTANDING', 'DEBT_OUTSTANDING leaf 3', { root: SHORT, leaf: INDEBTED }],
  ['DENY BUDGET_EXCEEDED', 'BUDGET_EXCEEDED root 5', { root: SHORT, leaf: SHORT }],
  ['ALLOW', '', { root: GOOD, leaf: GOOD }],
];

// prettier-ignore
const DIRECT_DEBIT: readonly Row[] = [
  ['IDEMPOTENCY_MISMATCH', '', { usedKey: true, tenant: CLOSED, root: OVER_LIMIT, leaf: FROZEN }],
  ['TENANT_CLOSED', '', { tenant: CLOSED, root: OVER_LIMIT, leaf: FROZEN }],
  ['TENANT_CLOSED', '', { tenant: CLOSED, otherUnits: OTHER_UNITS }],
  ['TENANT_CLOSED', '', { tenant: CLOSED, root: GOOD, leaf: GOOD }],
  ['TENANT_SUSPENDED', '', { tenant: SUSPENDED, root: OVER_LIMIT, leaf: FROZEN }],
  ['TENANT_SUSPENDED', '', { tenant: SUSPENDED, root: GOOD, leaf: GOOD }],
  ['NOT_FOUND', '', { tenant: ODD_POLICY }],
  ['UNIT_MISMATCH leaf USD_MICROCENTS RISK_POINTS', '', { tenant: ODD_POLICY, otherUnits: OTHER_UNITS }],
  ['UNIT_MISMATCH root CREDITS RISK_POINTS', '', { otherUnits: ROOT_UNITS }],
  ['BUDGET_CLOSED root 3', '', { tenant: ODD_POLICY, root: SHUT, leaf: FROZEN }],
  ['BUDGET_CLOSED root 1000', '', { root: { status: 'CLOSED' }, leaf: GOOD }],
  ['BUDGET_FROZEN leaf 3', '', { tenant: ODD_POLICY, root: OVER_LIMIT, leaf: FROZEN }],
  ['BUDGET_FROZEN leaf 1000', '', { root: GOOD, leaf: { status: 'FROZEN' } }],
  ['INVALID_POLICY MAYBE', '', { tenant: ODD_POLICY, root: SHORT, leaf: SHORT }],
  ['INVALID_POLICY MAYBE', '', { tenant: ODD_POLICY, root: GOOD, leaf: GOOD }],
  // A debit is stopped neither by an over-limit mark nor by debt, only by its own policy, which is REJECT
  // here.
  ['BUDGET_EXCEEDED root -4', '', { root: OVER_LIMIT, leaf: INDEBTED }],
  ['BUDGET_EXCEEDED leaf 5', '', { root: { isOverLimit: true }, leaf: SHORT }],
  ['APPLIED', '', { root: { isOverLimit: true }, leaf: { debt: 2 } }],
];

type Ask = (ledger: LedgerClient, amount: number, full: boolean) => Promise<Reply>;

const reserve =
  (dryRun: boolean): Ask =>
  (ledger, amount, full) =>
    ledger.reserve({ subject: AGENT, key: 'k', amount, dryRun, maxLive: full ? 1 : 0 });

/**
 * Without other faults the tenant's policy is REJECT, and if there is a root budget, it has one live
 * reservation.
 */
async function prepare(ledger: LedgerClient, faults: Faults, ask: Ask): Promise<void> {
  const leaf = ledger.scope(AGENT);
  await ledger.makeTenant({ default_commit_overage_policy: 'REJECT' });
  if (faults.root !== undefined) {
    await ledger.makeBudget(GOOD);
    if (faults.usedKey) {
      await ask(ledger, 1, false);
    } else {
      await ledger.hold({ amount: 0 });
    }
    await ledger.makeBudget(faults.root);
  }
  if (faults.leaf !== undefined) {
    await ledger.makeBudget({ ...faults.leaf, scope: leaf });
  }
  for (const unit of faults.otherUnits?.root ?? []) {
    await ledger.makeBudget({ unit });
  }
  for (const unit of faults.otherUnits?.leaf ?? []) {
    await ledger.makeBudget({ unit, scope: leaf });
  }
  await ledger.makeTenant(faults.tenant);
}

async function denials(ledger: LedgerClient): Promise<Readonly<Record<string, string>>[]> {
  const { events } = await readLedger(ledger);
  return events.map(({ fields }) => fields).filter(({ ty }) => ty === 'reservation.denied');
}

/** The words of a reply or an event, with `root` and `leaf` for the scopes. */
function wordsOf(ledger: LedgerClient, words: readonly (string | undefined)[]): string {
  const names = new Map([
    [ledger.scope(), 'root'],
    [ledger.scope(AGENT), 'leaf'],
  ]);
  return words
    .filter((word) => word !== undefined && word !== 'fresh')
    .map((word) => names.get(word as string) ?? word)
    .join(' ');
}

/** @param asker what a denial event says about the request besides the amount */
async function expectRow(
  [answer, told, faults]: Row,
  ask: Ask,
  asker: Readonly<Record<string, string>> = {},
): Promise<void> {
  const ledger = await newLedger();
  await prepare(ledger, faults, ask);
  const before = await snapshot(ledger, 'events');
  const earlier = (await denials(ledger)).length;
  const reply = await ask(ledger, faults.amount ?? 10, faults.full ?? true);
  if (/^(ALLOW|APPLIED)$/.test(answer)) {
    expect(reply[0]).toBe(answer);
    return;
  }
  expect(wordsOf(ledger, reply)).toBe(answer);
  const after = await snapshot(ledger, 'events');
  if (answer.startsWith('DENY')) {
    // A denial is an outcome, so it is remembered.
    const { tag, tenant } = ledger;
    expect(
      [idempotencyKey.reserve, idempotencyKey.decide].filter((keyOf) =>
        after.delete(keyOf(tag, tenant, 'k')),
      ),
    ).toHaveLength(1);
  }
  expect(after).toEqual(before);
  const fresh = (await denials(ledger)).slice(earlier);
  expect(
    fresh.map((event) => wordsOf(ledger, [event['reason_code'], event['sc'], event['remaining']])),
  ).toEqual(told === '' ? [] : [told]);
  for (const event of fresh) {
    expect(event).toMatchObject({
      tn: ledger.tenant,
      unit: 'TOKENS',
      requested_amount: String(faults.amount ?? 10),
      ac: 'api_key',
      ki: 'key_1',
      ak: 'llm',
      ...asker,
    });
  }
}

describe('a reserve is refused, and changes no byte', () => {
  test.each(RESERVE)('%s (%s) %j', async (...row) => {
    shows('over limit before debt', 'outstanding debt', 'insufficient budget');
    await expectRow(row, reserve(false), { ag: 'bot', an: 'gpt', rq: 'req_reserve' });
  });
});

describe('a dry run', () => {
  test.each(DRY_RUN)('%s (%s) %j', async (...row) => {
    shows('closed tenant denies');
    await expectRow(row, reserve(true), { ag: 'bot', an: 'gpt', rq: 'req_reserve' });
  });
});

describe('a decision', () => {
  test.each(DECIDE)('%s (%s) %j', async (...row) => {
    shows('closed tenant denies', 'decision on debt');
    await expectRow(row, (ledger, amount) => decide(ledger, { subject: AGENT, key: 'k', amount }), {
      rq: 'req_decide',
    });
  });
});

describe('a direct debit is refused, and changes no byte', () => {
  test.each(DIRECT_DEBIT)('%s%s %j', async (...row) => {
    shows('direct debit refusals');
    await expectRow(row, (ledger, amount) => debit(ledger, { subject: AGENT, key: 'k', amount }));
  });
});
