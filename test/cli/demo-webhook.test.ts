import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { DemoReceiver, DemoWebhook } from '../../src/cli/demo-webhook.js';
import { signedHeaders } from '../../src/webhooks/signing/signing.js';
import { ADMIN_API_KEY, expectStatus, type Json } from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();
const dataDir = mkdtempSync(join(tmpdir(), 'holdfast-demo-'));
const keptFile = join(dataDir, 'demo-webhook-security.json');
const SECURITY = '/v1/admin/config/webhook-security';

beforeAll(async () => {
  expectStatus(
    await on.holdfast.admin('POST', '/v1/admin/tenants', { tenant_id: 'demo', name: 'Demo' }),
    201,
  );
});
afterAll(() => rmSync(dataDir, { recursive: true }));

const open = (): Promise<DemoWebhook> =>
  DemoWebhook.open({ baseUrl: on.holdfast.url, adminKey: ADMIN_API_KEY, dataDir });
const security = async (): Promise<Json> => expectStatus(await on.holdfast.admin('GET', SECURITY), 200);
const subscriptions = async (): Promise<Json[]> =>
  expectStatus(await on.holdfast.admin('GET', '/v1/admin/webhooks?tenant_id=demo'), 200)
    .subscriptions as Json[];

describe("the demonstration's webhook", () => {
  const strict = {
    blocked_cidr_ranges: ['10.0.0.0/8', '127.0.0.0/8', '127.0.0.1/32', '::1/128'],
    allowed_url_patterns: ['https://hooks.example.com/*'],
    allow_http: false,
  };
  beforeEach(async () => {
    expectStatus(await on.holdfast.admin('PUT', SECURITY, strict), 200);
  });

  test('allows only its own URL in the configuration, and restores it afterwards', async () => {
    const webhook = await open();
    expect(await security()).toEqual({
      blocked_cidr_ranges: ['10.0.0.0/8', '::1/128'],
      allowed_url_patterns: ['https://hooks.example.com/*', webhook.url],
      allow_http: true,
    });
    expect((await subscriptions()).map(({ url, event_types: types }) => [url, types])).toEqual([
      [webhook.url, ['reservation.expired']],
    ]);
    await webhook.close();
    expect(await security()).toEqual(strict);
    expect(await subscriptions()).toEqual([]);
    expect(existsSync(keptFile)).toBe(false);
  });

  test('that was interrupted is cleaned up by the next start', async () => {
    writeFileSync(keptFile, JSON.stringify(strict));
    expectStatus(
      await on.holdfast.admin('PUT', SECURITY, { blocked_cidr_ranges: [], allow_http: true }),
      200,
    );
    const left = {
      url: 'http://127.0.0.1:9/expired',
      event_types: ['reservation.expired'],
      name: 'npm run up',
    };
    expectStatus(await on.holdfast.admin('POST', '/v1/admin/webhooks?tenant_id=demo', left), 201);
    const next = await open();
    expect((await subscriptions()).map(({ url }) => url as string)).toEqual([next.url]);
    expect((await security()).allowed_url_patterns).toEqual(['https://hooks.example.com/*', next.url]);
    await next.close();
    expect(await security()).toEqual(strict);
    expect(await subscriptions()).toEqual([]);
  });

  test('does not touch other subscriptions', async () => {
    expectStatus(await on.holdfast.admin('PUT', SECURITY, { blocked_cidr_ranges: [] }), 200);
    const body = {
      url: 'https://127.0.0.1:9/',
      event_types: ['reservation.expired'],
      name: 'mine, not npm run up',
    };
    const { subscription } = expectStatus(
      await on.holdfast.admin('POST', '/v1/admin/webhooks?tenant_id=demo', body),
      201,
    );
    await (await open()).close();
    expect((await subscriptions()).map(({ subscription_id: id }) => id as string)).toEqual([
      subscription.subscription_id,
    ]);
  });
});

describe("the demonstration's endpoint", () => {
  test('counts a delivery as verified only if both signatures match', async () => {
    const receiver = await DemoReceiver.start();
    receiver.secret = `whsec_${Buffer.alloc(32, 3).toString('base64')}`;
    const body = JSON.stringify({
      event_id: 'evt_1',
      event_type: 'reservation.expired',
      timestamp: '2026-01-01T00:00:00Z',
      data: { reservation_id: 'rsv_1' },
    });
    const headers = signedHeaders({
      secrets: [receiver.secret],
      headers: {},
      event: { eventId: 'evt_1', eventType: 'reservation.expired' },
      nowMs: Date.now(),
      body,
    });
    const other = signedHeaders({
      secrets: ['another'],
      headers: {},
      event: { eventId: 'evt_1', eventType: 'reservation.expired' },
      nowMs: Date.now(),
      body,
    });
    for (const sent of [
      headers,
      other,
      {},
      { ...headers, 'x-cycles-signature': other['x-cycles-signature'] as string },
      { ...headers, 'webhook-id': 'evt_2' },
    ]) {
      expect((await fetch(receiver.url, { method: 'POST', headers: sent, body })).status).toBe(204);
    }
    receiver.stop();
    expect(receiver.arrivals.map(({ verified }) => verified)).toEqual([true, false, false, false, false]);
    expect(receiver.arrivals[0]).toMatchObject({
      eventId: 'evt_1',
      eventType: 'reservation.expired',
      reservationId: 'rsv_1',
    });
  });
});
