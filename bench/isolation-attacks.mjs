// The attacks: what each one prepares, and the load that it then creates.
import { setTimeout as delay } from 'node:timers/promises';
import { unlessShort } from './duration.mjs';
import { Endpoint } from './endpoint.mjs';
import { spreadOf, whole } from './report.mjs';
import { adminHeaders, allowLocalWebhooks, askAsAdmin } from './service.mjs';

/**
 * @typedef {import('./types.ts').AttackRequest} AttackRequest
 * @typedef {import('./types.ts').Tenant} Tenant
 * @typedef {import('./isolation.mjs').IsolationBenchmark} IsolationBenchmark
 *
 * @typedef {object} AttackLoad
 * @property {number} connections
 * @property {AttackRequest[]} requests
 *
 * @typedef {object} Prepared
 * @property {string} of what the attacker has
 * @property {AttackLoad} load
 * @property {() => Promise<import('./isolation-report.mjs').Deliveries>} [deliveries] beside each phase
 * @property {() => void} [end]
 *
 * @typedef {object} Attack
 * @property {string} name
 * @property {boolean} [usesNames] whether the service asks the benchmark's own name server
 * @property {(bench: IsolationBenchmark, attacker: Tenant) => Promise<Prepared>} prepare
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
    async prepare(bench, attacker) {
      await bench.withHolds([attacker], async (holds) => {
        await holds.make(HOLDS, { ttlMs: HOUR_MS });
        await holds.shareDeadline(attacker, Date.now() + HOUR_MS);
      });
      const close = asAdmin('PATCH', `/v1/admin/tenants/${attacker.tenant}`, { status: 'CLOSED' });
      return { of: `${whole(HOLDS)} holds`, load: { connections: 1, requests: [close] } };
    },
  },
  {
    name: 'lists of budgets with large metadata',
    async prepare(bench, attacker) {
      const made = await bench.send(
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
    async prepare(bench, attacker) {
      await allowLocalWebhooks(bench.service.port);
      const path = `/v1/admin/webhooks?tenant_id=${attacker.tenant}`;
      const subscription = { url: 'http://127.0.0.1:9/', event_types: ['budget.funded'], metadata: METADATA };
      const made = await bench.send(
        Array.from({ length: SUBSCRIPTIONS }, () => asAdmin('POST', path, subscription)),
      );
      const { subscriptions } = /** @type {{ subscriptions: { subscription_id: string }[] }} */ (
        await askAsAdmin(bench.service.port, 'GET', `${path}&limit=1`)
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
    prepare(_bench, attacker) {
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
    async prepare(bench, attacker) {
      const requests = Array.from({ length: BUDGETS }, (_, number) =>
        asAdmin('POST', '/v1/admin/budgets', budgetOf(attacker.tenant, `/app:a${number}`)),
      );
      const made = await bench.send(requests);
      const balances = asTenant(attacker, 'GET', `/v1/balances?tenant=${attacker.tenant}&agent=nobody`);
      return { of: `${whole(made)} budgets, 8 connections`, load: { connections: 8, requests: [balances] } };
    },
  },
  {
    name: 'sorted lists of reservations',
    async prepare(bench, attacker) {
      await bench.withHolds([attacker], (holds) => holds.make(RESERVATIONS, { ttlMs: HOUR_MS }));
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
    async prepare(bench, attacker) {
      await allowLocalWebhooks(bench.service.port);
      /** @type {(tenant: string, url: string) => AttackRequest} */
      const subscribe = (tenant, url) =>
        asAdmin('POST', `/v1/admin/webhooks?tenant_id=${tenant}`, {
          url,
          event_types: ['reservation.expired', 'reservation.denied'],
        });
      const made = await bench.send(
        Array.from({ length: UNRESOLVED_SUBSCRIPTIONS }, (_, number) =>
          subscribe(attacker.tenant, `http://host-${number}.example:9/`),
        ),
      );
      const endpoint = await Endpoint.start();
      await bench.send([subscribe(bench.victim.tenant, `${endpoint.url}/victim`)]);
      const denied = tooMuch(attacker);
      return {
        of: `${made} subscriptions, 4 connections`,
        load: { connections: 4, requests: [denied] },
        deliveries: () => deliveriesOf(bench, endpoint),
        end: () => endpoint.stop(),
      };
    },
  },
];

/**
 * Holds of the victim that expire at a steady pace, each timed from its expiry to its arrival at the victim's endpoint.
 * @param {IsolationBenchmark} bench
 * @param {Endpoint} endpoint
 */
async function deliveriesOf(bench, endpoint) {
  await endpoint.received({ forget: true });
  const count = DELIVERIES_PER_SECOND * bench.seconds;
  await bench.withHolds([bench.victim], async (holds) => {
    await holds.pace({ perSecond: DELIVERIES_PER_SECOND, seconds: bench.seconds, ttlMs: 1000 });
  });
  const deadline = performance.now() + 10_000;
  let { delays } = await endpoint.received({ forget: false });
  while (delays.length < count && performance.now() < deadline) {
    await delay(100);
    ({ delays } = await endpoint.received({ forget: false }));
  }
  return { due: count, count: delays.length, p99_ms: spreadOf(delays).p99_ms };
}
