import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Answer, Api, DemoError, describe } from './api.js';

export const UNIT = 'TOKENS';
export const TENANT = 'demo';
export const SUBJECT = { tenant: TENANT, workspace: 'playground', agent: 'writer' } as const;

/** What each demo budget starts with, and what a top-up adds; root first. */
export const ALLOCATIONS: Readonly<Record<string, number>> = {
  [`tenant:${TENANT}`]: 1_000_000,
  [`tenant:${TENANT}/workspace:${SUBJECT.workspace}`]: 500_000,
  [`tenant:${TENANT}/workspace:${SUBJECT.workspace}/agent:${SUBJECT.agent}`]: 100_000,
};

/** The three budgeted scopes, root first. */
export const SCOPES: readonly string[] = Object.keys(ALLOCATIONS);

export const FIGURES = ['remaining', 'reserved', 'spent', 'allocated'] as const;
export type Figure = (typeof FIGURES)[number];
export type Figures = Readonly<Record<Figure, number>>;
/** The figures of each demo scope, root first. */
export type Balances = ReadonlyMap<string, Figures>;

interface BalanceBody {
  readonly scope_path: string;
  readonly remaining: { readonly unit: string; readonly amount: number };
  readonly reserved?: { readonly amount: number };
  readonly spent?: { readonly amount: number };
  readonly allocated?: { readonly amount: number };
}

/**
 * The balances that an answer carries, of the demo's scopes only.
 * @throws DemoError when one of the scopes is missing.
 */
export function balancesIn(step: string, { body }: Answer): Balances {
  const listed = (body['balances'] ?? []) as readonly BalanceBody[];
  return new Map(
    SCOPES.map((scope) => {
      const found = listed.find((balance) => balance.scope_path === scope && balance.remaining.unit === UNIT);
      if (found === undefined) {
        throw new DemoError(`${step}: the answer holds no balance of ${scope}`);
      }
      const { remaining, reserved, spent, allocated } = found;
      const figures = {
        remaining: remaining.amount,
        reserved: reserved?.amount ?? 0,
        spent: spent?.amount ?? 0,
        allocated: allocated?.amount ?? 0,
      };
      return [scope, figures];
    }),
  );
}

export async function readBalances(step: string, api: Api): Promise<Balances> {
  return balancesIn(
    step,
    await api.expect(step, [200], 'GET', `/v1/balances?tenant=${TENANT}&include_children=true&limit=200`),
  );
}

/** Why `after` is not `before` with the given changes at every scope, in words; undefined when it is. */
export function deviation(before: Balances, after: Balances, change: Partial<Figures>): string | undefined {
  for (const scope of SCOPES) {
    for (const figure of FIGURES) {
      const expected = (before.get(scope)?.[figure] ?? 0) + (change[figure] ?? 0);
      const found = after.get(scope)?.[figure] ?? 0;
      if (found !== expected) {
        return `${figure} of ${scope} should be ${expected} and is ${found}`;
      }
    }
  }
  return undefined;
}

export function someReserved(balances: Balances): boolean {
  return [...balances.values()].some(({ reserved }) => reserved !== 0);
}

/** Formats a number: 1,000,000. */
export function amount(value: number): string {
  return value.toLocaleString('en-US');
}

/** The balances as aligned lines; a figure that changed since `before` is followed by its change. */
export function balanceTable(balances: Balances, before: Balances = balances): string {
  const rows = [...balances].map(([scope, figures]) => {
    const cells = FIGURES.flatMap((figure) => {
      const change = figures[figure] - (before.get(scope)?.[figure] ?? 0);
      return [amount(figures[figure]), change === 0 ? '' : `(${change > 0 ? '+' : ''}${amount(change)})`];
    });
    return [scope, ...cells];
  });
  return align([['scope', ...FIGURES.flatMap((figure) => [figure, ''])], ...rows]);
}

/** Aligns figures to the right, and the scope and the changes to the left. */
function align(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    row
      .map((cell, column) =>
        column % 2 === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart((widths[column] ?? 0) + 1),
      )
      .join(' ');
  return rows.map((row) => `   ${line(row)}`.trimEnd()).join('\n');
}

/** Budgets with less than this remaining are topped up, so that the demo can always run. */
const MIN_REMAINING = 20_000;

export interface DemoLedgerOptions {
  readonly baseUrl: string;
  readonly adminKey: string;
  /** Where the demo's API key is kept between starts. */
  readonly dataDir: string;
  /** Makes the idempotency keys of this run its own. */
  readonly runId: string;
  readonly print: (text: string) => void;
}

/**
 * Creates the demo tenant, its API key and its budgets, or finds those of an earlier run.
 * @returns the tenant's API key
 * @throws DemoError if the service does not respond as expected
 */
export async function prepareLedger(options: DemoLedgerOptions): Promise<string> {
  const admin = new Api(options.baseUrl, { 'X-Admin-API-Key': options.adminKey });
  const tenant = await admin.expect('the demo tenant', [200, 201], 'POST', '/v1/admin/tenants', {
    tenant_id: TENANT,
    name: 'Demo',
  });
  options.print(`Tenant   ${TENANT}: ${tenant.status === 201 ? 'made' : 'found from an earlier start'}`);
  const apiKey = await findOrMakeKey(admin, options);
  await prepareBudgets(admin, new Api(options.baseUrl, { 'X-Cycles-API-Key': apiKey }), options);
  return apiKey;
}

async function findOrMakeKey(admin: Api, { baseUrl, dataDir, print }: DemoLedgerOptions): Promise<string> {
  const file = join(dataDir, 'demo-api-key');
  const kept = readKept(file);
  if (kept !== undefined) {
    const answer = await new Api(baseUrl, { 'X-Cycles-API-Key': kept }).call(
      'GET',
      `/v1/balances?tenant=${TENANT}`,
    );
    if (answer.status === 200) {
      print(`API key  the one kept in ${file}`);
      return kept;
    }
    if (answer.status !== 401 && answer.status !== 403) {
      throw new DemoError(`the demo key: expected 200, got ${describe(answer)}`);
    }
    print(`API key  the one kept in ${file} is not valid any more`);
  }
  const answer = await admin.expect('the demo key', [201], 'POST', '/v1/admin/api-keys', {
    tenant_id: TENANT,
    name: 'npm run up',
  });
  const apiKey = String(answer.body['key_secret']);
  keep(file, dataDir, apiKey);
  print(`API key  made, and kept in ${file}`);
  return apiKey;
}

function readKept(file: string): string | undefined {
  try {
    const text = readFileSync(file, 'utf8').trim();
    return /^[\x21-\x7e]+$/.test(text) ? text : undefined;
  } catch {
    return undefined;
  }
}

function keep(file: string, dataDir: string, apiKey: string): void {
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    writeFileSync(file, `${apiKey}\n`, { mode: 0o600 });
    chmodSync(file, 0o600);
  } catch (error) {
    throw new DemoError(
      `the demo key cannot be kept in ${file} (${(error as NodeJS.ErrnoException).code ?? 'unknown error'})`,
      { cause: error },
    );
  }
}

async function prepareBudgets(admin: Api, tenant: Api, { runId, print }: DemoLedgerOptions): Promise<void> {
  let made = 0;
  for (const [scope, tokens] of Object.entries(ALLOCATIONS)) {
    const request = { tenant_id: TENANT, scope, unit: UNIT, allocated: { unit: UNIT, amount: tokens } };
    const answer = await admin.expect('the demo budgets', [201, 409], 'POST', '/v1/admin/budgets', request);
    if (answer.status === 409 && answer.body['error'] !== 'DUPLICATE_RESOURCE') {
      throw new DemoError(`the demo budgets: expected 201, got ${describe(answer)}`);
    }
    made += answer.status === 201 ? 1 : 0;
  }
  const balances = await readBalances('the demo budgets', tenant);
  const found = SCOPES.length - made;
  const spent = amount(balances.get(SCOPES[0] as string)?.spent ?? 0);
  print(
    `Budgets  ${found === 0 ? `made at ${made} scopes` : `found at ${found} scopes, ${spent} tokens spent so far${made === 0 ? '' : `; made at ${made}`}`}`,
  );
  for (const [scope, tokens] of Object.entries(ALLOCATIONS)) {
    if ((balances.get(scope)?.remaining ?? 0) < MIN_REMAINING) {
      const path = `/v1/admin/budgets/fund?tenant_id=${TENANT}&scope=${encodeURIComponent(scope)}&unit=${UNIT}`;
      const credit = {
        operation: 'CREDIT',
        amount: { unit: UNIT, amount: tokens },
        idempotency_key: `top-up-${runId}`,
        reason: 'npm run up',
      };
      await admin.expect('the top-up', [200], 'POST', path, credit);
      print(`         ${scope} was nearly used up, and got ${amount(tokens)} more`);
    }
  }
}
