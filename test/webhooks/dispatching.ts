import { eventually } from '../support/eventually.js';
import {
  expectStatus,
  Holdfast,
  type HoldfastClient,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';
import type { Settings } from '../support/settings.js';

export const SYSTEM = '__system__';

/** For an instance that keeps its leases, and whose attempts may hang, though the machine holds it up for seconds. */
export const UNDISTURBED = { webhookLeaseMs: 20_000, WEBHOOK_TIMEOUT_MS: '60000' } as const;

/** An instance that dispatches by itself, at short intervals. */
export function startDispatcher(env: Settings): Promise<Holdfast> {
  return Holdfast.start({ HOLDFAST_ROLES: 'api,dispatcher', webhookPollMs: 20, ...env });
}

/** Allows endpoints on loopback and without TLS, for everything in this Redis. */
export async function allowLoopback(holdfast: HoldfastClient): Promise<void> {
  expectStatus(
    await holdfast.admin('PUT', '/v1/admin/config/webhook-security', {
      blocked_cidr_ranges: [],
      allow_http: true,
    }),
    200,
  );
}

/** A subscription, by default to refused reservations. Returns its id. */
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

/**
 * Causes one event of the tenant: a refused reserve. Returns the request's id, which the delivery carries.
 */
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

/** The deliveries of a subscription, newest first. */
export async function deliveries(holdfast: Holdfast, id: string): Promise<Json[]> {
  return expectStatus(await holdfast.admin('GET', `/v1/admin/webhooks/${id}/deliveries?limit=100`), 200)
    .deliveries as Json[];
}

/**
 * The deliveries of a subscription, once there are as many as expected and all have ended. A retry whose time a test has changed in Redis
 * is found within ten seconds.
 */
export function endedDeliveries(holdfast: Holdfast, id: string, count: number): Promise<Json[]> {
  return eventually(
    `${count} deliveries end`,
    async () => {
      const found = await deliveries(holdfast, id);
      const ended = found.filter(({ status }) => status === 'SUCCESS' || status === 'FAILED');
      return ended.length === count ? found : Promise.reject(new Error(JSON.stringify(found)));
    },
    25_000,
  );
}

/**
 * Whether a call of a script queues deliveries. Those events that nobody is subscribed to are completed by the same script: the ones of a
 * tenant's own making may still be read when a test begins.
 */
export function queuesDeliveries(script: unknown, args: unknown): boolean {
  const { eventCount, rest } = args as { eventCount: number; rest: readonly string[] };
  // It begins with the events that are complete.
  return script === 'queue_deliveries' && rest.length > eventCount;
}
