import { creditKey, idempotencyKey } from '../../src/redis/keyspace.js';
import type { Reply } from '../../src/redis/scripts.js';
import { IDEMPOTENCY_TTL_MS, type LedgerClient, randomText, TRACE } from './ledger-client.js';

/** The scripts of credits, called as the services call them. */

export interface GrantOptions {
  readonly id?: string;
  readonly key?: string;
  readonly scope?: string;
  readonly name?: string;
  readonly priority?: number;
  readonly starts?: number | '';
  readonly ends?: number | '';
  readonly notifyBeforeMs?: number | '';
  readonly fingerprint?: string;
}

const ADMIN = ['admin', '', 'req_credit', `${TRACE},127.0.0.1,test`] as const;
const UNIT = 'TOKENS';

export const newCreditId = (ledger: LedgerClient): string => `crd_${ledger.tag.slice(2, 4)}${randomText(16)}`;

export function grant(
  ledger: LedgerClient,
  amount: bigint | number | string,
  options: GrantOptions = {},
): Promise<Reply> {
  const {
    id = newCreditId(ledger),
    key = randomText(12),
    scope = ledger.scope(),
    name = 'a credit',
  } = options;
  const { priority = 50, starts = '', ends = '', notifyBeforeMs = '' } = options;
  return ledger.scripts.run(
    'grant_credit',
    [
      ledger.budgetKeyOf(scope),
      idempotencyKey.credit(ledger.tag, UNIT, scope, key),
      creditKey(ledger.tag, id),
    ],
    [
      ledger.tenant,
      scope,
      UNIT,
      String(amount),
      name,
      'promotion',
      priority,
      starts,
      ends,
      notifyBeforeMs,
      '',
      options.fingerprint ?? JSON.stringify([String(amount), name, priority, starts, ends]),
      IDEMPOTENCY_TTL_MS,
      '',
      ...ADMIN,
    ],
  );
}

/** Grants a credit and returns its id. */
export async function granted(
  ledger: LedgerClient,
  amount: bigint | number | string,
  options: GrantOptions = {},
): Promise<string> {
  const reply = await grant(ledger, amount, options);
  if (reply[0] !== 'GRANTED') {
    throw new Error(`the credit was not granted: ${reply.join(' ')}`);
  }
  return reply[2] as string;
}

export const voidCredit = (ledger: LedgerClient, id: string, scope = ledger.scope()): Promise<Reply> =>
  ledger.scripts.run(
    'void_credit',
    [ledger.budgetKeyOf(scope), creditKey(ledger.tag, id)],
    [ledger.tenant, scope, UNIT, 'by mistake', ...ADMIN],
  );

export const updateCredit = (
  ledger: LedgerClient,
  id: string,
  { name = '', ends = '' }: { name?: string; ends?: number | 'none' | '' },
  scope = ledger.scope(),
): Promise<Reply> =>
  ledger.scripts.run(
    'update_credit',
    [ledger.budgetKeyOf(scope), creditKey(ledger.tag, id)],
    [ledger.tenant, scope, UNIT, name, ends, ...ADMIN],
  );

export interface ListedCredit {
  readonly id: string;
  readonly amount: bigint;
  readonly left: bigint;
  readonly pinned: bigint;
  readonly lapsed: bigint;
  readonly voided: bigint;
  readonly consumed: bigint;
  readonly status: string;
}

/** The credits of a budget, oldest ended last, with what lua/governance/list_credits.lua says of each. */
export async function creditsOf(ledger: LedgerClient, scope = ledger.scope()): Promise<ListedCredit[]> {
  const [, , live = '', , ...records] = await ledger.scripts.run(
    'list_credits',
    [ledger.budgetKeyOf(scope)],
    [scope, UNIT, 100],
  );
  const [, listed = '', pins = ''] = live.split('|');
  const parts = (text: string): string[][] =>
    text
      .split(' ')
      .filter((part) => part !== '')
      .map((part) => part.split(','));
  return records.map((record) => {
    const texts = record.split('\x1f');
    const fields = Object.fromEntries(
      Array.from({ length: texts.length / 2 }, (_, at) => [texts[2 * at], texts[2 * at + 1]]),
    ) as Record<string, string>;
    const id = fields['credit_id'] as string;
    const entry = parts(listed).find(([one]) => one === id);
    const pin = parts(pins).find(([one]) => one === id);
    const [left, pinned] = [BigInt(entry?.[2] ?? 0), BigInt(pin?.[2] ?? 0)];
    const [amount, lapsed, voided] = ['amount', 'lapsed', 'voided'].map((name) =>
      BigInt(fields[name] ?? 0),
    ) as [bigint, bigint, bigint];
    const status = entry === undefined ? (fields['status'] ?? '') : entry[1] === 'a' ? 'ACTIVE' : 'SCHEDULED';
    return {
      id,
      amount,
      left,
      pinned,
      lapsed,
      voided,
      status,
      consumed: amount - left - pinned - lapsed - voided,
    };
  });
}

/** What became of each credit, in the order of the ids given: left, pinned, consumed, lapsed, voided. */
export async function became(ledger: LedgerClient, ...ids: string[]): Promise<string[]> {
  const shown = await creditsOf(ledger);
  return ids.map((id) => {
    const credit = shown.find((one) => one.id === id);
    return credit === undefined
      ? 'gone'
      : [credit.status, credit.left, credit.pinned, credit.consumed, credit.lapsed, credit.voided].join(' ');
  });
}
