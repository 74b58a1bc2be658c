import { describe, expect, test } from '@jest/globals';
import type { Reply } from '../../src/redis/scripts.js';
import { shows } from '../compatibility/shows.js';
import type { BudgetOptions, LedgerClient, SettleOptions } from '../support/ledger-client.js';
import { assertInvariants, snapshot } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';

/*
 * The order in which a commit, a release and an extension check for refusals. Each row has the fault that the
 * reply reports, and faults that are checked later, so a table lists the refusals from first to last.
 */

const newLedger = useLedger();
const AGENT = { agent: 'bot' };

/**
 * What happened to the hold before. An overdue one has not been accessed since its grace ended; an expired
 * one has.
 */
type State = 'live' | 'released' | 'committed' | 'in grace' | 'overdue' | 'expired' | 'unknown';

interface Faults {
  /** An earlier request with the same idempotency key was granted. */
  readonly usedKey?: true;
  readonly foreign?: true;
  readonly hold?: State;
  readonly tenant?: 'CLOSED' | 'SUSPENDED';
  /** The budget at the agent. The hold of 10 is on the root, too. */
  readonly leaf?: BudgetOptions;
  /** Applies to a commit. */
  readonly unit?: 'CREDITS';
  readonly actual?: number;
}

type Row = readonly [answer: string, faults: Faults];

const FROZEN: BudgetOptions = { reserved: 10, status: 'FROZEN' };
const SHUT: BudgetOptions = { reserved: 10, status: 'CLOSED' };
/** A commit of more than the estimate, under REJECT and in the wrong unit. */
const WRONG = { unit: 'CREDITS', actual: 11 } as const;
const TOO_MUCH = { actual: 11 } as const;

// prettier-ignore
const COMMIT: readonly Row[] = [
  ['IDEMPOTENCY_MISMATCH', { usedKey: true, tenant: 'CLOSED', leaf: FROZEN, ...WRONG }],
  ['NOT_FOUND', { hold: 'unknown', tenant: 'CLOSED', leaf: FROZEN, ...WRONG }],
  ['FORBIDDEN', { foreign: true, hold: 'released', tenant: 'CLOSED', leaf: FROZEN, ...WRONG }],
  ['FORBIDDEN', { foreign: true, tenant: 'CLOSED', leaf: FROZEN, ...WRONG }],
  ['TENANT_CLOSED', { hold: 'released', tenant: 'CLOSED', leaf: FROZEN, ...WRONG }],
  ['TENANT_CLOSED', { hold: 'committed', tenant: 'CLOSED', leaf: FROZEN, ...WRONG }],
  ['TENANT_CLOSED', { hold: 'expired', tenant: 'CLOSED', leaf: FROZEN, ...WRONG }],
  ['TENANT_CLOSED', { hold: 'overdue', tenant: 'CLOSED', leaf: FROZEN, ...WRONG }],
  ['TENANT_CLOSED', { tenant: 'CLOSED', leaf: FROZEN, ...WRONG }],
  ['RESERVATION_FINALIZED RELEASED', { hold: 'released', tenant: 'SUSPENDED', leaf: FROZEN, ...WRONG }],
  ['RESERVATION_FINALIZED COMMITTED', { hold: 'committed', tenant: 'SUSPENDED', leaf: FROZEN, ...WRONG }],
  ['RESERVATION_EXPIRED', { hold: 'expired', tenant: 'SUSPENDED', leaf: FROZEN, ...WRONG }],
  ['UNIT_MISMATCH TOKENS leaf', { hold: 'in grace', tenant: 'SUSPENDED', leaf: FROZEN, ...WRONG }],
  ['UNIT_MISMATCH TOKENS leaf', { tenant: 'SUSPENDED', leaf: FROZEN, ...WRONG }],
  ['BUDGET_FROZEN leaf', { tenant: 'SUSPENDED', leaf: FROZEN, ...TOO_MUCH }],
  ['BUDGET_CLOSED leaf', { tenant: 'SUSPENDED', leaf: SHUT, ...TOO_MUCH }],
  ['BUDGET_CLOSED leaf', { leaf: SHUT, actual: 1 }],
  ['BUDGET_EXCEEDED leaf', { tenant: 'SUSPENDED', leaf: { allocated: 10, reserved: 10 }, ...TOO_MUCH }],
  ['COMMITTED', { tenant: 'SUSPENDED', leaf: { allocated: 10, reserved: 10 }, actual: 10 }],
];

// prettier-ignore
const RELEASE: readonly Row[] = [
  ['IDEMPOTENCY_MISMATCH', { usedKey: true, tenant: 'CLOSED', leaf: FROZEN }],
  ['NOT_FOUND', { hold: 'unknown', tenant: 'CLOSED', leaf: FROZEN }],
  ['FORBIDDEN', { foreign: true, hold: 'released', tenant: 'CLOSED', leaf: FROZEN }],
  ['TENANT_CLOSED', { hold: 'released', tenant: 'CLOSED', leaf: FROZEN }],
  ['TENANT_CLOSED', { hold: 'expired', tenant: 'CLOSED', leaf: FROZEN }],
  ['TENANT_CLOSED', { hold: 'overdue', tenant: 'CLOSED', leaf: FROZEN }],
  ['TENANT_CLOSED', { tenant: 'CLOSED', leaf: FROZEN }],
  ['RESERVATION_FINALIZED RELEASED', { hold: 'released', tenant: 'SUSPENDED', leaf: FROZEN }],
  ['RESERVATION_FINALIZED COMMITTED', { hold: 'committed', tenant: 'SUSPENDED', leaf: FROZEN }],
  ['RESERVATION_EXPIRED', { hold: 'expired', tenant: 'SUSPENDED', leaf: FROZEN }],
  ['RELEASED', { hold: 'in grace', tenant: 'SUSPENDED', leaf: FROZEN }],
];

// The tenant allows no extensions, which is checked last.
const EXTEND: readonly Row[] = [
  ['IDEMPOTENCY_MISMATCH', { usedKey: true, tenant: 'CLOSED', leaf: FROZEN }],
  ['NOT_FOUND', { hold: 'unknown', tenant: 'CLOSED', leaf: FROZEN }],
  ['FORBIDDEN', { foreign: true, hold: 'committed', tenant: 'CLOSED', leaf: FROZEN }],
  ['FORBIDDEN', { foreign: true }],
  ['TENANT_CLOSED', { hold: 'committed', tenant: 'CLOSED', leaf: FROZEN }],
  ['TENANT_CLOSED', { hold: 'expired', tenant: 'CLOSED', leaf: FROZEN }],
  ['TENANT_CLOSED', { hold: 'overdue', tenant: 'CLOSED', leaf: FROZEN }],
  ['TENANT_CLOSED', { hold: 'in grace', tenant: 'CLOSED', leaf: FROZEN }],
  ['RESERVATION_FINALIZED COMMITTED', { hold: 'committed', tenant: 'SUSPENDED', leaf: FROZEN }],
  ['RESERVATION_FINALIZED RELEASED', { hold: 'released', tenant: 'SUSPENDED', leaf: FROZEN }],
  ['RESERVATION_EXPIRED', { hold: 'expired', tenant: 'SUSPENDED', leaf: FROZEN }],
  ['RESERVATION_EXPIRED', { hold: 'in grace', tenant: 'SUSPENDED', leaf: FROZEN }],
  ['MAX_EXTENSIONS_EXCEEDED 0', { tenant: 'SUSPENDED', leaf: FROZEN }],
];

type Settle = (ledger: LedgerClient, id: string, options: SettleOptions, faults: Faults) => Promise<Reply>;

const commit: Settle = (ledger, id, options, { actual = 1, unit = 'TOKENS' }) =>
  ledger.commit(id, actual, { ...options, unit });
const release: Settle = (ledger, id, options) => ledger.release(id, options);
const extend: Settle = (ledger, id, options) => ledger.extend(id, 1000, options);

/** A hold of 10 on two scopes under REJECT, in the state of a row. Returns its id. */
async function heldAs(ledger: LedgerClient, state: State): Promise<string> {
  const { id } = await ledger.hold({ subject: AGENT, amount: 10, policy: 'REJECT' });
  switch (state) {
    case 'live':
      break;
    case 'unknown':
      return ledger.newId();
    case 'released':
      await ledger.release(id);
      break;
    case 'committed':
      await ledger.commit(id, 1);
      break;
    case 'in grace':
      await ledger.putInGrace(id);
      break;
    case 'overdue':
      await ledger.makeOverdue(id);
      break;
    case 'expired':
      await ledger.makeOverdue(id);
      await ledger.expire(id);
  }
  return id;
}

async function expectRow([answer, faults]: Row, settle: Settle, maxExtensions: number): Promise<void> {
  const ledger = await newLedger();
  const leaf = ledger.scope(AGENT);
  await ledger.makeTenant({ max_reservation_extensions: String(maxExtensions) });
  await ledger.makeBudget();
  await ledger.makeBudget({ scope: leaf });
  const id = await heldAs(ledger, faults.hold ?? 'live');
  const options = { key: 'k', tenant: faults.foreign ? 'other' : ledger.tenant };
  if (faults.usedKey) {
    expect((await settle(ledger, id, { ...options, fingerprint: 'of another request' }, {}))[1]).toBe(
      'fresh',
    );
  }
  if (faults.leaf !== undefined) {
    await ledger.makeBudget({ scope: leaf, ...faults.leaf });
  }
  await ledger.makeTenant(faults.tenant === undefined ? {} : { status: faults.tenant });
  const before = await snapshot(ledger);
  const reply = await settle(ledger, id, options, faults);
  if (reply[1] === 'fresh') {
    expect(reply[0]).toBe(answer);
    await assertInvariants(ledger);
  } else {
    expect(reply.map((word) => (word === leaf ? 'leaf' : word)).join(' ')).toBe(answer);
    expect(await snapshot(ledger)).toEqual(before);
  }
}

describe('a commit is refused, and changes no byte', () => {
  test.each(COMMIT)('%s %j', async (...row) => {
    shows('closed before reservation', 'finalized', 'expired', 'wrong unit');
    await expectRow(row, commit, 10);
  });
});

describe('a release is refused, and changes no byte', () => {
  test.each(RELEASE)('%s %j', async (...row) => {
    shows('closed before reservation', 'finalized', 'expired');
    await expectRow(row, release, 10);
  });
});

describe('an extension is refused, and changes no byte', () => {
  test.each(EXTEND)('%s %j', async (...row) => {
    shows('closed before reservation', 'finalized', 'expired', 'extension needs lease');
    await expectRow(row, extend, row[1].usedKey ? 1 : 0);
  });
});
