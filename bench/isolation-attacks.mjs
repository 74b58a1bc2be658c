// The attacks: what each one prepares, and the load that it then creates.
import { setTimeout as delay } from 'node:timers/promises';
import { Client, inTurn } from './client.mjs';
import { unlessShort } from './duration.mjs';
import { startEndpoint } from './endpoint.mjs';
import { withHolds } from './holds.mjs';
import { spreadOf, whole } from './report.mjs';
import { adminHeaders, allowLocalWebhooks, askAsAdmin, subscribe } from './service.mjs';

/**
 * @typedef {import('./types.ts').AttackRequest} AttackRequest
 * @typedef {import('./types.ts').Tenant} Tenant
 * @typedef {{ service: import('./types.ts').Service, victim: Tenant, seconds: number }} World  seconds: of each phase
 *
 * @typedef {object} Prepared
 * @property {string} of what the attacker has
 * @property {{ connections: number, requests: AttackRequest[] }} load
 * @property {() => Promise<{ due: number, count: number, p99_ms: number }>} [deliveries] beside each phase
 * @property {() => void} [end]
 *
 * @typedef {object} Attack
 * @property {string} name
 * @property {boolean} [usesNames] whether the service asks the benchmark's own name server
 * @property {(world: World, attacker: Tenant) => Promise<Prepared>} prepare
 */

const HOLDS = unlessShort(100_000, 2000);
const RESERVATIONS = unlessShort(40_000, 1000);
const BUDGETS = unlessShort(100_000, 1000);
/** As much metadata as the server accepts. */
const METADATA = { text: 'm'.repeat(16_000) };
/** The largest body of a request. */
const LARGEST_BODY_BYTES = 262_144;
const LARGE_BUDGETS = 120;
const SUBSCRIPTIONS = 130;
const UNRESOLVED_SUBSCRIPTIONS = 40;
const DELIVERIES_PER_SECOND = 20;
const HOUR_MS = 3_600_000;
const AT_ONCE = 32;

/** @type {(method: AttackRequest['method'], path: string, body?: unknown) => AttackRequest} */
const asAdmin = (method, path, body) => ({ method, path, headers: adminHeaders, body });
/** @type {(tenant: Tenant, method: AttackRequest['method'], path: string, body?: unknown) => AttackRequest} */
const asTenant = ({ apiKey }, method, path, body) => ({
  method,
  path,
  headers: { 'x-cycles-api-key': apiKey },
  body,
});
/** @type {(tenant: string, below: string) => object} */
const budgetOf = (tenant, below) => ({
  tenant_id: tenant,
  scope: `tenant:${tenant}${below}`,
  unit: 'TOKENS',
  allocated: { unit: 'TOKENS', amount: 1000 },
});

/**
 * Sends each request once, and reports how many were accepted.
 * @param {number} port
 * @param {AttackRequest[]} requests
 */
async function sendAll(port, requests) {
  const client = new Client(port, { connections: AT_ONCE, headers: {} });
  let accepted = 0;
  await inTurn(requests, AT_ONCE, async ({ method, path, headers, body }) => {
    const { status } = await client.ask(method, path, JSON.stringify(body), headers);
    accepted += status === 200 || status === 201 ? 1 : 0;
  });
  await client.close();
  return accepted;
}

/** More than any budget has. */
const tooMuch = (/** @type {Tenant} */ attacker) =>
  asTenant(attacker, 'POST', '/v1/reservations', {
    idempotency_key: 'too-much',
    subject: { tenant: attacker.tenant },
    action: { kind: 'llm', name: 'gpt' },
    estimate: { unit: 'TOKENS', amount: 1e15 + 1 },
  });

/** @type {Attack[]} */
export const ATTACKS = [
  {
    name: 'a close with many holds of one deadline',
    async prepare({ service }, attacker) {
      await withHolds(service.socket, [attacker], async (holds) => {
        await holds.make(HOLDS, { ttlMs: HOUR_MS });
        await holds.shareDeadline(attacker, Date.now() + HOUR_MS);
      });
      const close = asAdmin('PATCH', `/v1/admin/tenants/${attacker.tenant}`, { status: 'CLOSED' });
      return { of: `${whole(HOLDS)} holds`, load: { connections: 1, requests: [close] } };
    },
  },
  {
    name: 'lists of budgets with large metadata',
    async prepare({ service }, attacker) {
      const made = await sendAll(
        service.port,
        Array.from({ length: LARGE_BUDGETS }, (_, number) =>
          asAdmin('POST', '/v1/admin/budgets', {
            ...budgetOf(attacker.tenant, `/app:a${number}`),
            metadata: METADATA,
          }),
        ),
      );
      const list = asTenant(attacker, 'GET', '/v1/admin/budgets?limit=1');
      return {
        of: `${made} budgets with as much metadata as the server accepts, 16 connections`,
        load: { connections: 16, requests: [list] },
      };
    },
  },
  {
    name: 'changes of subscriptions with large metadata',
    async prepare({ service }, attacker) {
      await allowLocalWebhooks(service.port);
      const path = `/v1/admin/webhooks?tenant_id=${attacker.tenant}`;
      const subscription = { url: 'http://127.0.0.1:9/', event_types: ['budget.funded'], metadata: METADATA };
      const made = await sendAll(
        service.port,
        Array.from({ length: SUBSCRIPTIONS }, () => asAdmin('POST', path, subscription)),
      );
      const { subscriptions } = /** @type {{ subscriptions: { subscription_id: string }[] }} */ (
        await askAsAdmin(service.port, 'GET', `${path}&limit=1`)
      );
      const changeTo = (/** @type {string[]} */ ...event_types) =>
        asAdmin('PATCH', `/v1/admin/webhooks/${subscriptions[0]?.subscription_id}`, { event_types });
      const [change, changeBack] = [changeTo('budget.funded', 'budget.updated'), changeTo('budget.funded')];
      const denied = tooMuch(attacker);
      return {
        of: `${made} subscriptions with as much metadata, 8 connections`,
        load: { connections: 8, requests: [change, denied, changeBack, denied] },
      };
    },
  },
  {
    name: 'requests as large as the server reads',
    prepare(_, attacker) {
      const note = { note: 'x'.repeat(LARGEST_BODY_BYTES - 1000) };
      const large = {
        ...tooMuch(attacker),
        body: { .../** @type {object} */ (tooMuch(attacker).body), metadata: note },
      };
      return Promise.resolve({
        of: `${whole(LARGEST_BODY_BYTES)} bytes, 8 connections`,
        load: { connections: 8, requests: [large] },
      });
    },
  },
  {
    name: 'balances of a scope that does not exist',
    async prepare({ service }, attacker) {
      const requests = Array.from({ length: BUDGETS }, (_, number) =>
        asAdmin('POST', '/v1/admin/budgets', budgetOf(attacker.tenant, `/app:a${number}`)),
      );
      const made = await sendAll(service.port, requests);
      const balances = asTenant(attacker, 'GET', `/v1/balances?tenant=${attacker.tenant}&agent=nobody`);
      return { of: `${whole(made)} budgets, 8 connections`, load: { connections: 8, requests: [balances] } };
    },
  },
  {
    name: 'sorted lists of reservations',
    async prepare({ service }, attacker) {
      await withHolds(service.socket, [attacker], (holds) => holds.make(RESERVATIONS, { ttlMs: HOUR_MS }));
      const list = asTenant(attacker, 'GET', '/v1/reservations?sort_by=reserved&limit=1');
      return {
        of: `${whole(RESERVATIONS)} reservations, 60 connections`,
        load: { connections: 60, requests: [list] },
      };
    },
  },
  {
    name: 'subscriptions whose host names do not resolve',
    usesNames: true,
    async prepare({ service, victim, seconds }, attacker) {
      await allowLocalWebhooks(service.port);
      const types = ['reservation.expired', 'reservation.denied'];
      const subscribed = (/** @type {Tenant} */ { tenant }, /** @type {string} */ url) =>
        subscribe(service.port, url, tenant, types);
      for (let number = 0; number < UNRESOLVED_SUBSCRIPTIONS; number += 1) {
        await subscribed(attacker, `http://host-${number}.example:9/`);
      }
      const endpoint = await startEndpoint();
      await subscribed(victim, `${endpoint.url}/victim`);
      const denied = tooMuch(attacker);
      return {
        of: `${UNRESOLVED_SUBSCRIPTIONS} subscriptions, 4 connections`,
        load: { connections: 4, requests: [denied] },
        deliveries: () => deliveriesOf({ service, victim, seconds }, endpoint),
        end: () => endpoint.stop(),
      };
    },
  },
];

/**
 * Holds of the victim that expire at a steady pace, each timed from its expiry to its arrival at the victim's endpoint.
 * @param {World} world
 * @param {import('./endpoint.mjs').Endpoint} endpoint
 */
async function deliveriesOf({ service, victim, seconds }, endpoint) {
  await endpoint.received({ forget: true });
  const count = DELIVERIES_PER_SECOND * seconds;
  await withHolds(service.socket, [victim], (holds) =>
    holds.pace({ perSecond: DELIVERIES_PER_SECOND, seconds, ttlMs: 1000 }),
  );
  const deadline = performance.now() + 10_000;
  let { delays } = await endpoint.received({ forget: false });
  while (delays.length < count && performance.now() < deadline) {
    await delay(100);
    ({ delays } = await endpoint.received({ forget: false }));
  }
  return { due: count, count: delays.length, p99_ms: spreadOf(delays).p99_ms };
}
