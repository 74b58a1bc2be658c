import { afterEach, describe, expect, test } from '@jest/globals';
import { shows } from '../compatibility/shows.js';
import { expectRefusal, expectStatus, type Answer, type Json } from '../support/holdfast.js';
import { PUBLIC_URL, Subscriber } from '../support/subscriber.js';
import { auditEntriesOf } from '../support/stored-audit.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();
const PATH = '/v1/admin/config/webhook-security';
const subscriber = (): Promise<Subscriber> => Subscriber.make(on.holdfast, on.stored);
const put = (body: Record<string, unknown>): Promise<Answer> => on.holdfast.admin('PUT', PATH, body);
const get = async (): Promise<Json> => expectStatus(await on.holdfast.admin('GET', PATH), 200);

afterEach(async () => {
  expectStatus(await put({}), 200);
});

describe('the security configuration', () => {
  test("blocks what is not public unless told otherwise: the protocol's ranges and more", async () => {
    shows('private addresses', 'getWebhookSecurityConfig');
    const config = await get();
    expect(config).toMatchObject({ allowed_url_patterns: [], allow_http: false });
    for (const range of [
      '10.0.0.0/8',
      '172.16.0.0/12',
      '192.168.0.0/16',
      '127.0.0.0/8',
      '169.254.0.0/16',
      '::1/128',
      'fc00::/7',
      '0.0.0.0/8',
      '100.64.0.0/10',
      'fe80::/10',
      'ff00::/8',
    ]) {
      expect(config.blocked_cidr_ranges).toContain(range);
    }
  });

  test('is replaced as a whole, and omitted members get their defaults again', async () => {
    shows('security configuration', 'updateWebhookSecurityConfig');
    const before = await get();
    const config = {
      blocked_cidr_ranges: ['203.0.113.0/24'],
      allowed_url_patterns: ['https://*.example.com/*'],
      allow_http: true,
    };
    expect(expectStatus(await put(config), 200)).toEqual(config);
    expect(await get()).toEqual(config);
    expect(expectStatus(await put({ allow_http: true }), 200)).toEqual({ ...before, allow_http: true });
  });

  test('has an audit row for each change, with the new values', async () => {
    const answer = await put({ allow_http: true });
    const row = (await auditEntriesOf(on.holdfast, 'webhook-security')).at(-1);
    expect(row).toMatchObject({
      operation: 'updateWebhookSecurityConfig',
      resource_type: 'config',
      request_id: answer.headers.get('x-request-id'),
      metadata: { actor_type: 'admin', metadata: { allow_http: true } },
    });
  });

  test.each<[string, Record<string, unknown>]>([
    ['an unknown member', { allow_https: true }],
    ['an invalid range', { blocked_cidr_ranges: ['10.0.0.0/33'] }],
    ['an address without a prefix length', { blocked_cidr_ranges: ['10.0.0.1'] }],
    ["a range of IPv4 in IPv6's form", { blocked_cidr_ranges: ['::ffff:10.0.0.0/104'] }],
    ['a name', { blocked_cidr_ranges: ['internal/8'] }],
    ['a pattern without a scheme', { allowed_url_patterns: ['*.example.com'] }],
    ['a pattern with another scheme', { allowed_url_patterns: ['ftp://example.com/'] }],
    ['a string for a boolean', { allow_http: 'yes' }],
    ['null', { blocked_cidr_ranges: null }],
  ])('with %s is refused and does not change', async (_what, body) => {
    const before = await get();
    expectRefusal(await put(body), 400, 'INVALID_REQUEST');
    expect(await get()).toEqual(before);
  });

  test("is the operators' own", async () => {
    const tenant = await subscriber();
    expectRefusal(await on.holdfast.call('GET', PATH, { key: tenant.key }), 401, 'UNAUTHORIZED');
    expectRefusal(await on.holdfast.call('PUT', PATH, { key: tenant.key, body: {} }), 401, 'UNAUTHORIZED');
  });
});

describe('a URL for webhooks', () => {
  test.each([
    ['plain HTTP', 'http://93.184.216.34/'],
    ['another scheme', 'ftp://93.184.216.34/'],
    ['no scheme', '93.184.216.34/hook'],
    ['no URL', 'hook'],
    ['a user', 'https://user@93.184.216.34/'],
    ['a user and a password', 'https://user:pass@93.184.216.34/'],
    ['a line break', 'https://93.184.216.34/\nhook'],
    ['white space around', ' https://93.184.216.34/'],
    ['backslashes', 'https:\\\\93.184.216.34\\hook'],
    ['a name that does not resolve', 'https://no-such-host.invalid/'],
    ['an international name that does not resolve', 'https://b\u00fccher.invalid/'],
    ['a name of this machine', 'https://localhost/hook'],
    ['loopback', 'https://127.0.0.1/'],
    ['loopback as one number', 'https://2130706433/'],
    ['loopback in octal', 'https://0177.0.0.1/'],
    ['loopback in hex', 'https://0x7f.1/'],
    ['loopback in short', 'https://127.1/'],
    ['a private network of each kind: 10', 'https://10.1.2.3/'],
    ['a private network of each kind: 172', 'https://172.31.255.255/'],
    ['a private network of each kind: 192', 'https://192.168.0.1/'],
    ['link-local, where clouds keep credentials', 'https://169.254.169.254/latest/meta-data'],
    ['this network', 'https://0.0.0.0/'],
    ['carrier-grade NAT', 'https://100.64.0.1/'],
    ['multicast', 'https://224.0.0.1/'],
    ['broadcast', 'https://255.255.255.255/'],
    ['benchmarking', 'https://198.18.0.1/'],
    ['IPv6 loopback', 'https://[::1]/'],
    ['IPv6 unspecified', 'https://[::]/'],
    ['IPv6 unique local', 'https://[fd00::1]/'],
    ['IPv6 link-local', 'https://[fe80::1]/'],
    ['IPv6 multicast', 'https://[ff02::1]/'],
    ['a mapped private address', 'https://[::ffff:10.0.0.1]/'],
    ['a mapped loopback in hex', 'https://[::ffff:7f00:1]/'],
    ['a compatible loopback', 'https://[::127.0.0.1]/'],
    ['a private address behind NAT64', 'https://[64:ff9b::10.0.0.1]/'],
    ['a private address behind 6to4', 'https://[2002:c0a8:0101::1]/'],
    ['a translated loopback', 'https://[::ffff:0:127.0.0.1]/'],
    ['a Teredo address', 'https://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/'],
    ['the discard prefix', 'https://[100::1]/'],
    ['a segment routing identifier', 'https://[5f00::1]/'],
    ['a documentation address', 'https://203.0.113.7/'],
    ['an IPv6 documentation address', 'https://[2001:db8::1]/'],
  ])('is refused with %s, at creation and later', async (_what, url) => {
    shows('webhook urls', 'createWebhookSubscription', 'updateWebhookSubscription', 'createTenantWebhook');
    const tenant = await subscriber();
    expectRefusal(await tenant.create({ url }), 400, 'WEBHOOK_URL_INVALID');
    const { subscription_id: id } = await tenant.made();
    expectRefusal(await tenant.patch(id, { url, name: 'changed' }), 400, 'WEBHOOK_URL_INVALID');
    expect(expectStatus(await tenant.get(id), 200)).toMatchObject({ url: PUBLIC_URL });
    expect(expectStatus(await tenant.get(id), 200)).not.toHaveProperty('name');
  });

  test.each([
    'https://93.184.216.34/hook',
    'https://93.184.216.34:8443/a?b=c',
    'https://[2606:2800:220:1:248:1893:25c8:1946]/',
    'HTTPS://93.184.216.34',
  ])('is accepted and stored as given: %s', async (url) => {
    expect((await (await subscriber()).made({ url })).url).toBe(url);
  });

  test('may be plain HTTP if that is allowed, from the next request on', async () => {
    shows('webhook urls');
    const tenant = await subscriber();
    const url = 'http://93.184.216.34/hook';
    expectRefusal(await tenant.create({ url }), 400, 'WEBHOOK_URL_INVALID');
    expectStatus(await put({ allow_http: true }), 200);
    expectStatus(await tenant.create({ url }), 201);
    expectStatus(await put({ allow_http: false }), 200);
    expectRefusal(await tenant.create({ url }), 400, 'WEBHOOK_URL_INVALID');
  });

  test('may lead anywhere if no range is blocked, which has to be stated', async () => {
    shows('private addresses');
    const tenant = await subscriber();
    expectStatus(await put({ blocked_cidr_ranges: [] }), 200);
    for (const url of [
      'https://127.0.0.1/',
      'https://[::ffff:10.0.0.1]/',
      'https://localhost/',
      'https://169.254.169.254/',
    ]) {
      expectStatus(await tenant.create({ url }), 201);
    }
    expectStatus(await put({ blocked_cidr_ranges: ['10.0.0.0/8'] }), 200);
    expectStatus(await tenant.create({ url: 'https://127.0.0.1/' }), 201);
    expectRefusal(await tenant.create({ url: 'https://[::ffff:10.0.0.1]/' }), 400, 'WEBHOOK_URL_INVALID');
  });

  test('must match one of the allowed patterns, if there are any', async () => {
    shows('webhook urls');
    const tenant = await subscriber();
    expectStatus(
      await put({ allowed_url_patterns: ['https://93.184.216.*/hooks/*', 'https://93.184.217.7'] }),
      200,
    );
    for (const url of [
      'https://93.184.216.34/hooks/a',
      'https://93.184.216.35/hooks/',
      'https://93.184.217.7/anything',
    ]) {
      expectStatus(await tenant.create({ url }), 201);
    }
    for (const url of [
      'https://93.184.216.34/hook',
      'https://93.184.217.8/93.184.216.34/hooks/a',
      'https://93.184.216.34:8443/hooks/a',
      'https://93.184.216.34/hooks/..%2fadmin',
      'https://93.184.216.34/hooks/%252e%252e%255cadmin',
    ]) {
      expectRefusal(await tenant.create({ url }), 400, 'WEBHOOK_URL_INVALID');
    }
  });

  test('that is refused is counted by reason', async () => {
    const tenant = await subscriber();
    const counted = (reason: string): Promise<number> =>
      on.holdfast.metric('holdfast_webhook_targets_refused_total', { judged: 'registration', reason });
    const urls = {
      malformed: 'hook',
      scheme: 'http://93.184.216.34/',
      credentials: 'https://u:p@93.184.216.34/',
      blocked_address: 'https://10.0.0.1/',
      unresolved: 'https://no-such-host.invalid/',
    };
    for (const [reason, url] of Object.entries(urls)) {
      const before = await counted(reason);
      expectRefusal(await tenant.create({ url }), 400, 'WEBHOOK_URL_INVALID');
      expect([reason, await counted(reason)]).toEqual([reason, before + 1]);
    }
    expectStatus(await put({ allowed_url_patterns: ['https://example.com'] }), 200);
    expectRefusal(await tenant.create(), 400, 'WEBHOOK_URL_INVALID');
    expect(await counted('pattern')).toBeGreaterThan(0);
  });

  test('of a stored subscription is not checked again by a change of something else', async () => {
    shows('security configuration');
    const tenant = await subscriber();
    const { subscription_id: id, url } = await tenant.made();
    expectStatus(await put({ allowed_url_patterns: ['https://example.com'] }), 200);
    expect(expectStatus(await tenant.patch(id, { name: 'x', url }), 200)).toMatchObject({ name: 'x', url });
  });
});
