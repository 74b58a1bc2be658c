import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { shows } from '../compatibility/shows.js';
import { DnsServer } from '../support/dns-server.js';
import { eventually } from '../support/eventually.js';
import { expectRefusal, expectStatus, type Holdfast, type TestTenant } from '../support/holdfast.js';
import { startStore, type Store } from '../support/store.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';
import {
  allowLoopback,
  causeEvent,
  deliveries,
  endedDeliveries,
  startDispatcher,
  subscribe,
  subscription,
} from './dispatching.js';

const SILENT = 40;

let store: Store;
let dns: DnsServer;
let holdfast: Holdfast;
let receiver: WebhookReceiver;

beforeEach(async () => {
  [store, dns, receiver] = await Promise.all([startStore(), DnsServer.start(), WebhookReceiver.start()]);
  holdfast = await startDispatcher({ REDIS_URL: store.url, WEBHOOK_DNS_SERVERS: dns.address });
  await allowLoopback(holdfast);
});

afterEach(async () => {
  await holdfast.stop();
  await receiver.stop();
  dns.stop();
  await store.stop();
});

/**
 * Subscriptions of a tenant to names that resolved when they were registered, but whose server is silent now.
 */
async function subscribeSilent(tenant: TestTenant, count: number): Promise<string[]> {
  const ids: string[] = [];
  dns.ttlS = 0;
  for (let index = 0; index < count; index += 1) {
    const name = `silent-${index}.example`;
    dns.answers.set(name, ['127.0.0.1']);
    ids.push(await subscribe(holdfast, tenant, `http://${name}:9/`));
    dns.answers.set(name, 'silent');
  }
  return ids;
}

const underWay = (): Promise<number> => holdfast.metric('holdfast_webhook_lookups_under_way');
const lookups = (outcome: string): Promise<number> =>
  holdfast.metric('holdfast_webhook_lookups_total', { outcome });

/** Names whose servers are silent and that nobody has asked for before. Each takes its place for five seconds. */
let named = 0;
function silentNames(count: number): string[] {
  return Array.from({ length: count }, () => {
    const name = `silent-${(named += 1)}.example`;
    dns.answers.set(name, 'silent');
    return name;
  });
}

test('forty endpoints whose name servers are silent delay no delivery of another tenant, and only count against themselves', async () => {
  const [tenant, other] = [await holdfast.fundedTenant(), await holdfast.fundedTenant()];
  dns.answers.set('hooks.example', ['127.0.0.1']);
  dns.answers.set('own.example', ['127.0.0.1']);
  const silent = await subscribeSilent(tenant, SILENT);
  const own = await subscribe(holdfast, tenant, `http://own.example:${receiver.port}/own`);
  const others = await subscribe(holdfast, other, `http://hooks.example:${receiver.port}/others`);
  await causeEvent(holdfast, tenant);
  await eventually(
    'they are being looked up',
    async () => (await underWay()) >= 16 && (await holdfast.metric('holdfast_webhook_lookups_waiting')) > 0,
  );
  let caused = 0;
  await eventually('another tenant is delivered to while all of them are looked up', async () => {
    const [places, timedOut] = [await underWay(), await lookups('timeout')];
    caused += 1;
    await causeEvent(holdfast, other);
    await endedDeliveries(holdfast, others, caused);
    return places >= 16 && (await lookups('timeout')) === timedOut;
  });
  expect(receiver.received.filter(({ path }) => path === '/others')).toHaveLength(caused);
  // Another endpoint of the same tenant waits for its turn, but this does not count as its failure.
  await eventually('it is delivered', () => receiver.received.some(({ path }) => path === '/own'), 40_000);
  expect((await subscription(holdfast, own)).consecutive_failures).toBe(0);
  await eventually(
    'each of them failed',
    async () => {
      const attempts: number[] = [];
      for (const id of silent) {
        attempts.push((await deliveries(holdfast, id))[0].attempts as number);
      }
      return attempts.every((count) => count > 0);
    },
    60_000,
    500,
  );
  expect(await lookups('timeout')).toBeGreaterThanOrEqual(SILENT);
  expect(await holdfast.metric('holdfast_webhook_attempts_postponed_total')).toBeGreaterThan(0);
  expect(await lookups('busy')).toBeGreaterThan(0);
  expect((await subscription(holdfast, others)).consecutive_failures).toBe(0);
}, 120_000);

test('a registration waits for its turn like a delivery: beyond the bound it is 429, and another tenant is not', async () => {
  shows('webhook urls');
  const [tenant, other] = [await holdfast.fundedTenant(), await holdfast.fundedTenant()];
  dns.answers.set('hooks.example', ['127.0.0.1']);
  const register = (owner: TestTenant, url: string) =>
    holdfast.admin('POST', `/v1/admin/webhooks?tenant_id=${owner.id}`, {
      url,
      event_types: ['reservation.denied'],
    });
  const id = await subscribe(holdfast, tenant, `http://127.0.0.1:${receiver.port}/`);
  const [change, answers] = await eventually(
    'a change finds no place in time',
    async () => {
      const many = silentNames(SILENT).map((name) => register(tenant, `https://${name}/`));
      await eventually('they are being looked up', async () => (await underWay()) >= 16);
      expectStatus(await register(other, `http://hooks.example:${receiver.port}/`), 201);
      const changed = await holdfast.admin('PATCH', `/v1/admin/webhooks/${id}`, {
        url: 'https://late.example/',
      });
      const registered = await Promise.all(many);
      const refused = [changed, ...registered].filter(({ status }) => status === 429);
      // On a busy machine, five seconds may pass before all of them have asked for a place.
      return changed.status === 429 && refused.length > SILENT - 32 && ([changed, registered] as const);
    },
    60_000,
  );
  expectRefusal(change, 429, 'LIMIT_EXCEEDED');
  expect(change.headers.get('retry-after')).toBe('2');
  const refused = answers.filter(({ status }) => status === 429);
  refused.forEach((answer) => expectRefusal(answer, 429, 'LIMIT_EXCEEDED'));
  answers
    .filter(({ status }) => status !== 429)
    .forEach((answer) => expectRefusal(answer, 400, 'WEBHOOK_URL_INVALID'));
}, 120_000);

test('a test of an endpoint is 429 while too many names of its tenant are looked up, and works afterwards', async () => {
  const tenant = await holdfast.fundedTenant();
  dns.ttlS = 0;
  dns.answers.set('hooks.example', ['127.0.0.1']);
  const id = await subscribe(holdfast, tenant, `http://hooks.example:${receiver.port}/`);
  const refused = await eventually(
    'a test finds no place in time',
    async () => {
      const many = silentNames(16).map((name) => {
        const body = { url: `https://${name}/`, event_types: ['reservation.denied'] };
        return holdfast.admin('POST', `/v1/admin/webhooks?tenant_id=${tenant.id}`, body);
      });
      await eventually('they are being looked up', async () => (await underWay()) >= 16);
      const probe = await holdfast.admin('POST', `/v1/admin/webhooks/${id}/test`);
      await Promise.all(many);
      return probe.status === 429 && probe;
    },
    30_000,
  );
  expectRefusal(refused, 429, 'LIMIT_EXCEEDED');
  expect(expectStatus(await holdfast.admin('POST', `/v1/admin/webhooks/${id}/test`), 200).success).toBe(true);
}, 60_000);

test('a name is not looked up again while its answer is fresh', async () => {
  const tenant = await holdfast.fundedTenant();
  dns.answers.set('hooks.example', ['127.0.0.1']);
  const id = await subscribe(holdfast, tenant, `http://hooks.example:${receiver.port}/`);
  expect(dns.countOf('hooks.example')).toBe(1);
  await causeEvent(holdfast, tenant);
  await endedDeliveries(holdfast, id, 1);
  expect(dns.countOf('hooks.example')).toBe(1);
  expect(await holdfast.metric('holdfast_webhook_lookups_total', { outcome: 'known' })).toBeGreaterThan(0);
});
