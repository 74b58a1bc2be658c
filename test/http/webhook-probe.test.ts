import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { Webhook } from 'standardwebhooks';
import { webhookKey } from '../../src/redis/keyspace.js';
import { shows } from '../compatibility/shows.js';
import {
  type Answer,
  expectRefusal,
  expectStatus,
  Holdfast,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';

const on = useGovernance();
let endpoint: WebhookReceiver;

beforeAll(async () => {
  endpoint = await WebhookReceiver.start();
});
afterAll(() => endpoint.stop());

beforeEach(async () => {
  endpoint.received.length = 0;
  endpoint.react = (response) => response.writeHead(200).end();
  await allow({ blocked_cidr_ranges: [], allow_http: true });
});

const allow = async (config: Json): Promise<void> => {
  expectStatus(await on.holdfast.admin('PUT', '/v1/admin/config/webhook-security', config), 200);
};

interface Subscribed {
  readonly id: string;
  readonly secret: string;
  readonly path: string;
}

async function subscribe(owner: string, more: Json = {}): Promise<Subscribed> {
  const answer = await on.holdfast.admin('POST', `/v1/admin/webhooks?tenant_id=${owner}`, {
    url: `${endpoint.url}/hook`,
    event_types: ['reservation.expired'],
    ...more,
  });
  const { subscription, signing_secret: secret } = expectStatus(answer, 201);
  return { id: subscription.subscription_id, secret, path: `/v1/webhooks/${subscription.subscription_id}` };
}

const keyFor = async (tenant: TestTenant, permissions = ['webhooks:write']): Promise<string> =>
  on.holdfast.createKey(tenant.id, { permissions });
const testAsAdmin = (id: string): Promise<Answer> =>
  on.holdfast.admin('POST', `/v1/admin/webhooks/${id}/test`);
const probes = (result: string): Promise<number> =>
  on.holdfast.metric('holdfast_webhook_probes_total', { result });

describe('a test of a subscription', () => {
  test('sends one signed event at once, with its trace, its request and the custom headers', async () => {
    shows('signed delivery', 'testWebhookSubscription');
    const tenant = await on.holdfast.createTenant();
    const { id, secret, path } = await subscribe(tenant.id, { headers: { Authorization: 'Bearer tok_1' } });
    const before = await probes('success');
    const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
    const answer = await on.holdfast.call('POST', `${path}/test`, {
      key: await keyFor(tenant),
      headers: { traceparent: `00-${traceId}-00f067aa0ba902b7-00` },
    });
    const result = expectStatus(answer, 200);
    expect(result).toEqual({
      success: true,
      response_status: 200,
      response_time_ms: expect.any(Number),
      event_id: expect.stringMatching(/^evt_[0-9a-f]{16,29}$/),
    });

    expect(endpoint.received).toHaveLength(1);
    const [{ headers, body, path: target }] = endpoint.received as [(typeof endpoint.received)[0]];
    expect(target).toBe('/hook');
    expect(headers).toMatchObject({
      authorization: 'Bearer tok_1',
      'content-type': 'application/json',
      'x-cycles-event-id': result.event_id,
      'x-cycles-event-type': 'system.webhook_test',
      'x-cycles-trace-id': traceId,
      traceparent: expect.stringMatching(new RegExp(`^00-${traceId}-(?!00f067aa0ba902b7)[0-9a-f]{16}-00$`)),
      'x-request-id': answer.headers.get('x-request-id'),
      'webhook-id': result.event_id,
    });
    expect(new Webhook(secret).verify(body, headers)).toEqual({
      event_id: result.event_id,
      event_type: 'system.webhook_test',
      category: 'system',
      timestamp: expect.stringMatching(/Z$/),
      tenant_id: tenant.id,
      source: 'holdfast',
      actor: { type: 'api_key', key_id: expect.stringMatching(/^key_/) },
      trace_id: traceId,
      request_id: answer.headers.get('x-request-id'),
      data: expect.objectContaining({
        component: 'webhook_dispatcher',
        message: expect.stringContaining(id),
      }),
    });
    expect(await probes('success')).toBe(before + 1);
  });

  test('leaves no delivery, no event and no change of the subscription', async () => {
    shows('webhook test');
    const tenant = await on.holdfast.createTenant();
    const { id, path } = await subscribe(tenant.id);
    const before = expectStatus(await on.holdfast.admin('GET', `/v1/admin/webhooks/${id}`), 200);
    const { event_id: eventId } = expectStatus(await testAsAdmin(id), 200);
    endpoint.react = (response) => response.writeHead(500).end();
    expect(expectStatus(await testAsAdmin(id), 200).success).toBe(false);
    expect(expectStatus(await on.holdfast.admin('GET', `/v1/admin/webhooks/${id}`), 200)).toEqual(before);
    expect(expectStatus(await on.holdfast.admin('GET', `${path}/deliveries`), 200).deliveries).toEqual([]);
    expect((await on.stored.events(tenant.id)).map(({ type }) => type)).not.toContain('system.webhook_test');
    expect((await on.holdfast.admin('GET', `/v1/admin/events/${eventId}`)).status).toBe(404);
  });

  test.each([
    [204, true],
    [302, false],
    [404, false],
    [503, false],
  ])("reports the endpoint's response: %i", async (status, success) => {
    shows('webhook test answer');
    const { id } = await subscribe('__system__');
    endpoint.react = (response) =>
      response.writeHead(status, { location: `${endpoint.url}/elsewhere` }).end('secret words');
    const result = expectStatus(await testAsAdmin(id), 200);
    expect(result).toMatchObject({ success, response_status: status, response_time_ms: expect.any(Number) });
    expect(result.error_message === undefined).toBe(success);
    expect(JSON.stringify(result)).not.toContain('secret words');
    expect(endpoint.received).toHaveLength(1);
  });

  test('waits no longer than a delivery does', async () => {
    shows('webhook test answer');
    const hasty = await Holdfast.start({ REDIS_URL: on.redis.url, WEBHOOK_TIMEOUT_MS: '500' });
    const { id } = await subscribe('__system__');
    endpoint.react = () => undefined;
    const result = expectStatus(await hasty.admin('POST', `/v1/admin/webhooks/${id}/test`), 200);
    expect(result).toEqual({
      success: false,
      response_time_ms: expect.any(Number),
      error_message: 'no answer within 500 ms',
      event_id: expect.any(String),
    });
    await hasty.stop();
  });

  test('sends nothing to a target that the security configuration no longer allows', async () => {
    shows('webhook test security');
    const { id } = await subscribe('__system__');
    const before = await probes('target_blocked');
    for (const config of [
      { allow_http: true },
      { blocked_cidr_ranges: [] },
      { blocked_cidr_ranges: [], allow_http: true, allowed_url_patterns: ['https://*.example.com/*'] },
    ]) {
      await allow(config);
      const result = expectStatus(await testAsAdmin(id), 200);
      expect(result).toEqual({
        success: false,
        error_message: expect.stringMatching(/^rejected by current security policy: .*nothing was sent$/),
      });
    }
    expect(endpoint.received).toHaveLength(0);
    expect(await probes('target_blocked')).toBe(before + 3);
  });

  test('sends nothing when the secret cannot be decrypted', async () => {
    const { id } = await subscribe('__system__');
    await on.stored.redis.hset(
      webhookKey(on.stored.tagOf('__system__'), id),
      'se',
      `enc:${Buffer.alloc(60).toString('base64')}`,
    );
    const before = await probes('signing_key_unavailable');
    expect(expectStatus(await testAsAdmin(id), 200)).toEqual({
      success: false,
      error_message: expect.stringContaining('signing_key_unavailable'),
    });
    expect(endpoint.received).toHaveLength(0);
    expect(await probes('signing_key_unavailable')).toBe(before + 1);
  });

  test('works while the subscription is paused, and signs with both secrets during a rotation', async () => {
    shows('webhook test');
    const tenant = await on.holdfast.createTenant();
    const { id, secret } = await subscribe(tenant.id);
    const fresh = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
    expectStatus(
      await on.holdfast.admin('PATCH', `/v1/admin/webhooks/${id}`, {
        status: 'PAUSED',
        signing_secret: fresh,
      }),
      200,
    );
    expect(expectStatus(await testAsAdmin(id), 200).success).toBe(true);
    const [{ body, headers }] = endpoint.received as [(typeof endpoint.received)[0]];
    for (const known of [secret, fresh]) {
      expect(new Webhook(known).verify(body, headers)).toMatchObject({ event_type: 'system.webhook_test' });
    }
  });
});

describe('a test is refused', () => {
  test("of another tenant's subscription, of one that does not exist, and without the permission", async () => {
    shows('foreign deliveries', 'testTenantWebhook');
    const [one, two] = [await on.holdfast.createTenant(), await on.holdfast.createTenant()];
    const { path } = await subscribe(one.id);
    const call = async (tenant: TestTenant, at: string, permissions?: string[]): Promise<Answer> =>
      on.holdfast.call('POST', `${at}/test`, { key: await keyFor(tenant, permissions) });
    expectRefusal(await call(two, path), 404, 'WEBHOOK_NOT_FOUND');
    expectRefusal(await call(one, '/v1/webhooks/whsub_00aaaaaaaaaaaaaaaa'), 404, 'WEBHOOK_NOT_FOUND');
    expectRefusal(await call(one, path, ['webhooks:read']), 403, 'INSUFFICIENT_PERMISSIONS');
    expectRefusal(
      await on.holdfast.call('POST', `${path.replace('/v1/', '/v1/admin/')}/test`, { key: one.key }),
      401,
      'UNAUTHORIZED',
    );
    expect(endpoint.received).toHaveLength(0);
  });

  test('when the tenant is closed', async () => {
    shows('test after close');
    const tenant = await on.holdfast.createTenant();
    const { id, path } = await subscribe(tenant.id);
    await on.stored.setTenantStatus(tenant.id, 'CLOSED');
    expectRefusal(await testAsAdmin(id), 409, 'TENANT_CLOSED');
    expectRefusal(await on.holdfast.admin('POST', `${path}/test`), 409, 'TENANT_CLOSED');
    expect(endpoint.received).toHaveLength(0);
  });
});
