import type { LookupAddress } from 'node:dns';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { loadConfig } from '../../src/config/config.js';
import { MetricsRegistry } from '../../src/telemetry/metrics-registry.js';
import { SecuritySettings } from '../../src/webhooks/target-policy/security-settings.js';
import { TARGET_BLOCKED, TargetPolicy } from '../../src/webhooks/target-policy/target-policy.js';
import type { AttemptOutcome } from '../../src/webhooks/transport/attempt.js';
import { WebhookTransport } from '../../src/webhooks/transport/webhook-transport.js';
import type { Origin } from '../../src/wire/origin.js';
import { shows } from '../compatibility/shows.js';
import { eventually } from '../support/eventually.js';
import { startStore, type Store } from '../support/store.js';
import { startRedisService, stopAllRedisServices, type RunningService } from '../support/redis-service.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';

const ORIGIN: Origin = { actor: 'admin', keyId: '', requestId: 'req_1', trace: `${'a'.repeat(32)}-01` };
const HOST = 'hooks.example';
const PUBLIC = '93.184.216.34';

let redis: Store;
let running: RunningService;
let settings: SecuritySettings;
let receiver: WebhookReceiver;
let transport: WebhookTransport;
let policy: TargetPolicy;
let registry: MetricsRegistry;
/** What the name resolves to: one answer per lookup; the last one is repeated. */
let answers: string[][];
let asked = 0;

function resolve(hostname: string): Promise<LookupAddress[]> {
  asked += 1;
  const next = (answers.length > 1 ? answers.shift() : answers[0]) ?? [];
  const given = hostname === HOST ? next : [hostname];
  return Promise.resolve(given.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })));
}

beforeAll(async () => {
  redis = await startStore();
  running = await startRedisService({ REDIS_URL: redis.url });
});

afterAll(async () => {
  await stopAllRedisServices();
  await redis.stop();
});

beforeEach(async () => {
  [answers, asked] = [[[PUBLIC]], 0];
  settings = new SecuritySettings(running.service);
  await settings.replace({ allow_http: true }, ORIGIN);
  registry = new MetricsRegistry(loadConfig({}));
  policy = new TargetPolicy(settings, resolve, registry);
  transport = new WebhookTransport(policy, running.service.clock);
  receiver = await WebhookReceiver.start();
});

afterEach(async () => {
  await transport.onApplicationShutdown();
  await receiver.stop();
});

/** The number of refusals, keyed by `judged reason`. */
async function refusals(): Promise<Record<string, number>> {
  const { values } = (await registry.registry
    .getSingleMetric('holdfast_webhook_targets_refused_total')
    ?.get()) ?? { values: [] };
  return Object.fromEntries(
    values.map(({ labels, value }) => [`${labels['judged']} ${labels['reason']}`, value]),
  );
}

const post = (url = `http://${HOST}:${receiver.port}/`): Promise<AttemptOutcome> =>
  transport.post({ owner: 'acme', url, headers: {}, body: '{}', timeoutMs: 5000 });

describe('a name that was public when it was registered', () => {
  test('and resolves to this machine when it is dialed gets nothing', async () => {
    answers = [[PUBLIC], ['127.0.0.1']];
    const url = `http://${HOST}:${receiver.port}/`;
    expect(await policy.check(url, 'acme')).toBe(url);
    expect(await post(url)).toMatchObject({ ok: false, reason: 'target_blocked' });
    expect([receiver.received, receiver.connectionCount]).toEqual([[], 0]);
    expect(await refusals()).toEqual({ 'dial blocked_address': 1 });
  });

  test.each([
    [['127.0.0.1', PUBLIC]],
    [[PUBLIC, '10.0.0.1']],
    [['::ffff:127.0.0.1']],
    [['64:ff9b::7f00:1']],
    [['2002:7f00:1::']],
  ])('and resolves to %j gets nothing: one blocked address blocks them all', async (addresses) => {
    answers = [addresses];
    expect(await post()).toMatchObject({ ok: false, reason: 'target_blocked' });
    expect(receiver.connectionCount).toBe(0);
  });

  test('is looked up once per connection, and the address that was checked is the one that is dialed', async () => {
    await settings.replace({ allow_http: true, blocked_cidr_ranges: ['10.0.0.0/8'] }, ORIGIN);
    answers = [['127.0.0.1'], ['10.0.0.1']];
    expect(await post()).toMatchObject({ ok: true, status: 200 });
    expect([receiver.received.length, asked]).toEqual([1, 1]);
  });
});

describe('the address of a URL', () => {
  test('is checked when it is dialed although nothing has to be looked up', async () => {
    expect(await post(receiver.url)).toMatchObject({ ok: false, reason: 'target_blocked' });
    expect(receiver.connectionCount).toBe(0);
    await settings.replace({ allow_http: true, blocked_cidr_ranges: [] }, ORIGIN);
    expect(await post(receiver.url)).toMatchObject({ ok: true });
  });

  test('is checked against a configuration that another instance changed, within a second', async () => {
    shows('updateWebhookSecurityConfig');
    await settings.replace({ allow_http: true, blocked_cidr_ranges: [] }, ORIGIN);
    expect(await post(receiver.url)).toMatchObject({ ok: true });
    await new SecuritySettings(running.service).replace({ allow_http: true }, ORIGIN);
    await eventually(
      'the attempt is refused',
      async () => (await post(receiver.url)).reason === 'target_blocked',
      3000,
    );
    const seen = receiver.received.length;
    expect(await post(receiver.url)).toMatchObject({ reason: 'target_blocked' });
    expect(receiver.received).toHaveLength(seen);
  });
});

describe('a URL that is no longer allowed', () => {
  test.each([
    ['for its scheme', 'scheme', { blocked_cidr_ranges: [] }],
    [
      'for its host',
      'pattern',
      { blocked_cidr_ranges: [], allow_http: true, allowed_url_patterns: ['https://other.example'] },
    ],
  ])('%s is not looked up', async (_why, reason, config) => {
    await settings.replace(config, ORIGIN);
    expect(await post()).toMatchObject({ ok: false, reason: 'target_blocked' });
    expect([asked, receiver.connectionCount]).toEqual([0, 0]);
    expect(await refusals()).toEqual({ [`attempt ${reason}`]: 1 });
  });
});

describe('the lookup', () => {
  const look = (options: { all?: boolean; family?: number }, hostname = HOST): Promise<unknown[]> =>
    new Promise((done) => policy.lookup(hostname, options, (...results) => done(results)));

  test('returns all addresses, the first one, or those of one family, as requested', async () => {
    answers = [[PUBLIC, '2606:4700::1']];
    expect(await look({ all: true })).toEqual([
      null,
      [
        { address: PUBLIC, family: 4 },
        { address: '2606:4700::1', family: 6 },
      ],
    ]);
    expect(await look({})).toEqual([null, PUBLIC, 4]);
    expect(await look({ all: true, family: 6 })).toEqual([null, [{ address: '2606:4700::1', family: 6 }]]);
  });

  test('refuses with its own code, even for an address of the family that was not requested', async () => {
    answers = [[PUBLIC, '::1']];
    const [error] = await look({ family: 4 });
    expect(error).toMatchObject({ code: TARGET_BLOCKED });
    answers = [[]];
    expect((await look({ all: true }))[0]).toMatchObject({ code: 'ENOTFOUND' });
  });
});

describe('the check of a URL', () => {
  test('stores an international name in ASCII, and anything else as given', async () => {
    const sees: string[] = [];
    registry = new MetricsRegistry(loadConfig({}));
    const international = new TargetPolicy(
      settings,
      (hostname) => {
        sees.push(hostname);
        return Promise.resolve([{ address: PUBLIC, family: 4 }]);
      },
      registry,
    );
    expect(await international.check('https://b\u00fccher.example/\u00fc', 'acme')).toBe(
      'https://xn--bcher-kva.example/%C3%BC',
    );
    expect(await international.check('https://Hooks.example', 'acme')).toBe('https://Hooks.example');
    expect(sees).toEqual(['xn--bcher-kva.example', 'hooks.example']);
  });

  test('refuses a name whose servers fail', async () => {
    registry = new MetricsRegistry(loadConfig({}));
    const failing = new TargetPolicy(settings, () => Promise.reject(new Error('SERVFAIL')), registry);
    await expect(failing.check('https://hooks.example/', 'acme')).rejects.toMatchObject({
      code: 'WEBHOOK_URL_INVALID',
    });
    expect(await refusals()).toEqual({ 'registration unresolved': 1 });
  });
});
