// What the examples prepare in Holdfast, and ask it in the end.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { ROOT, SetupError, parseJson } from '../scripts/install.mjs';
import { localUrl } from '../scripts/environment.mjs';

/** @typedef {{ scope: string, dollars: number }} Budget */

const MICROCENTS_PER_DOLLAR = 1e8;
const UNIT = 'USD_MICROCENTS';

/** An ADMIN_PORT serves the runtime plane, too. */
export const HOLDFAST_URL = (process.env.HOLDFAST_URL || localUrl()).replace(/\/+$/, '');

/**
 * What a reader can do about an answer.
 * @type {Readonly<Record<number, string>>}
 */
const ADVICE = {
  401: 'ADMIN_API_KEY, or else the key in DATA_DIR, is not that of this Holdfast',
  404: 'if it has an ADMIN_PORT, name that in HOLDFAST_URL',
};

function adminKey() {
  const file = join(process.env.DATA_DIR ?? join(ROOT, '.data'), 'admin-api-key');
  const key = process.env.ADMIN_API_KEY ?? (existsSync(file) ? readFileSync(file, 'utf8').trim() : undefined);
  if (key === undefined) {
    throw new SetupError(`start Holdfast with \`npm run up\` in another terminal first: there is no ${file}`);
  }
  return key;
}

/**
 * @param {string} method
 * @param {string} path
 * @param {object} [body]
 * @param {Record<string, string>} [headers]
 * @returns {Promise<unknown>}
 */
async function ask(method, path, body, headers = { 'x-admin-api-key': adminKey() }) {
  const response = await fetch(HOLDFAST_URL + path, {
    method,
    headers: { 'content-type': 'application/json', ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  }).catch((/** @type {unknown} */ cause) => {
    throw new SetupError(`nothing answers at ${HOLDFAST_URL}: start it with \`npm run up\``, { cause });
  });
  const text = await response.text();
  if (!response.ok) {
    const said = `${method} ${HOLDFAST_URL}${path}: ${response.status} ${text}`;
    throw new SetupError([said, ADVICE[response.status] ?? []].flat().join('; '));
  }
  return parseJson(text);
}

/**
 * A new tenant with budgets in dollars and a key.
 * @param {string} name of the example, with which the tenant's id begins
 * @param {Budget[]} budgets their scopes below the tenant, such as `/workspace:search`, or empty
 */
export async function prepareTenant(name, budgets) {
  const tenant = `${name}-${Date.now().toString(36)}`;
  await ask('POST', '/v1/admin/tenants', { tenant_id: tenant, name });
  for (const { scope, dollars } of budgets) {
    const allocated = { unit: UNIT, amount: Math.round(dollars * MICROCENTS_PER_DOLLAR) };
    await ask('POST', '/v1/admin/budgets', {
      tenant_id: tenant,
      scope: `tenant:${tenant}${scope}`,
      unit: UNIT,
      allocated,
    });
  }
  const key = await ask('POST', '/v1/admin/api-keys', { tenant_id: tenant, name });
  return { tenant, apiKey: /** @type {{ key_secret: string }} */ (key).key_secret };
}

/** @typedef {{ amount: number }} Figure */
/** @typedef {{ scope_path: string, allocated: Figure, spent: Figure, reserved: Figure }} Balance */

/** A gateway may charge a call a moment after its answer. */
const SETTLED_WITHIN_MS = 10_000;
const POLL_MS = 50;

/**
 * A line for each budget, as soon as nothing is held any more, and one with the number of denials.
 * @param {{ tenant: string, apiKey: string }} of
 */
export async function summaryOf({ tenant, apiKey }) {
  const path = `/v1/balances?tenant=${tenant}&include_children=true`;
  const until = performance.now() + SETTLED_WITHIN_MS;
  /** @type {Balance[]} */
  let balances;
  do {
    await delay(POLL_MS);
    const found = await ask('GET', path, undefined, { 'x-cycles-api-key': apiKey });
    balances = /** @type {{ balances: Balance[] }} */ (found).balances;
  } while (balances.some(({ reserved }) => reserved.amount > 0) && performance.now() < until);
  const dollars = (/** @type {Figure} */ { amount }) => `$${(amount / MICROCENTS_PER_DOLLAR).toFixed(6)}`;
  const denied = await ask('GET', `/v1/admin/events?tenant_id=${tenant}&event_type=reservation.denied`);
  return [
    ...balances.map(
      ({ scope_path: scope, allocated, spent, reserved }) =>
        `${scope}: spent ${dollars(spent)} of ${dollars(allocated)}, held ${dollars(reserved)}`,
    ),
    `denied: ${/** @type {{ events: unknown[] }} */ (denied).events.length}`,
  ];
}
