import { eventually } from '../support/eventually.js';
import {
  expectStatus,
  Holdfast,
  type HoldfastClient,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';

export const SYSTEM = '__system__';

/** An instance that dispatches by itself, often. */
export function startDispatcher(env: Record<string, string>): Promise<Holdfast> {
  return Holdfast.start({ HOLDFAST_ROLES: 'api,dispatcher', WEBHOOK_POLL_MS: '20', ...env });
}

/** Lets endpoints be on loopback and without TLS, for all of a Redis. */
export async function allowLoopback(holdfast: HoldfastClient): Promise<void> {
  expectStatus(
    await holdfast.admin('PUT', '/v1/admin/config/webhook-security', {
      blocked_cidr_ranges: [],
      allow_http: true,
    }),
    200,
  );
}

/** A subscription to refused reservations, unless told otherwise. Returns its id. */
export async function subscribe(
  holdfast: HoldfastClient,
  owner: TestTenant | typeof SYSTEM,
  url: string,
  more: Json = {},
): Promise<string> {
  const ofTenant = owner === SYSTEM ? SYSTEM : owner.id;
  const body = { url, event_types: ['reservation.denied'], ...more };
  const answer = await holdfast.admin('POST', `/v1/admin/webhooks?tenant_id=${ofTenant}`, body);
  return expectStatus(answer, 201).subscription.subscription_id as string;
}

/** A tenant whose reservations are refused as often as a test wants. */
export async function tenantWithBudget(holdfast: Holdfast): Promise<TestTenant> {
  const tenant = await holdfast.createTenant();
  await holdfast.createBudget(tenant, '', 1000);
  return tenant;
}

/** One event of the tenant: a reserve that is refused. Returns its request id, which the delivery carries. */
export async function causeEvent(holdfast: Holdfast, tenant: TestTenant): Promise<string> {
  const answer = await holdfast.reserve(tenant, 1_000_000_000_000);
  return answer.headers.get('x-request-id') ?? '';
}

export async function causeEvents(holdfast: Holdfast, tenant: TestTenant, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let index = 0; index < count; index += 1) {
    ids.push(await causeEvent(holdfast, tenant));
  }
  return ids;
}

export async function subscription(holdfast: Holdfast, id: string): Promise<Json> {
  return expectStatus(await holdfast.admin('GET', `/v1/admin/webhooks/${id}`), 200);
}

/** Its deliveries, newest first. */
export async function deliveries(holdfast: Holdfast, id: string): Promise<Json[]> {
  return expectStatus(await holdfast.admin('GET', `/v1/admin/webhooks/${id}/deliveries?limit=100`), 200)
    .deliveries as Json[];
}

/** The deliveries of a subscription once all of them have ended and there are as many as expected. */
export function endedDeliveries(holdfast: Holdfast, id: string, count: number): Promise<Json[]> {
  return eventually(`${count} deliveries end`, async () => {
    const found = await deliveries(holdfast, id);
    const ended = found.filter(({ status }) => status === 'SUCCESS' || status === 'FAILED');
    return ended.length === count ? found : Promise.reject(new Error(JSON.stringify(found)));
  });
}
