import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Api, describe, DemoError } from './api.js';
import { readBalances } from './balances.js';
import { ALLOCATIONS, SCOPES, TENANT, UNIT } from './demo-scopes.js';
import { amount } from './table.js';

/** A budget with less than this left is topped up, so that every start can show the whole round. */
const ENOUGH = 20_000;

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
 * Makes the demo tenant, its API key and its budgets, or finds those of an earlier start.
 * @returns the tenant's API key.
 * @throws DemoError when the service answers otherwise than expected.
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
    if ((balances.get(scope)?.remaining ?? 0) < ENOUGH) {
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
