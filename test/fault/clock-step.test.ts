import { fileURLToPath } from 'node:url';
import { afterEach, beforeAll, expect, test } from '@jest/globals';
import { Webhook } from 'standardwebhooks';
import { generateEvidenceKeys, rotateEvidenceKeys } from '../../src/config/evidence-keys.js';
import { randomFrom } from '../../scripts/seed.mjs';
import { buildService, startService } from '../support/built-service.js';
import { ConsoleClient, LiveReader } from '../support/console-client.js';
import { eventually } from '../support/eventually.js';
import { expectExactlyOnce } from '../support/exactly-once.js';
import {
  ADMIN_API_KEY,
  type Answer,
  expectRefusal,
  expectStatus,
  HoldfastClient,
  newKey,
  WEBHOOK_SECRET_ENCRYPTION_KEY,
  type Json,
} from '../support/holdfast.js';
import { JournaledLoad } from '../support/journaled-load.js';
import { startRedis, stopAllRedis } from '../support/redis-server.js';
import { StoredHolds } from '../support/stored-holds.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';
import { stateOf } from '../expiry/instances.js';

const HOUR_MS = 3_600_000;
/** Far less than a step, and far more than this machine may stall. */
const SLACK_MS = 60_000;
const PRELOAD = fileURLToPath(new URL('../support/stepping-clock.mjs', import.meta.url));

const cleanUps: (() => Promise<void> | void)[] = [];

beforeAll(buildService, 120_000);

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) {
    await cleanUp();
  }
  await stopAllRedis();
});

test('a clock of the process that jumps by an hour, on and back, changes no decision: leases, keys, replays, the sweep and readiness', async () => {
  const redis = await startRedis();
  const stored = new StoredHolds(redis.url);
  cleanUps.push(() => stored.close());
  const service = await startService({
    REDIS_URL: redis.url,
    ADMIN_API_KEY,
    WEBHOOK_SECRET_ENCRYPTION_KEY,
    HOLDFAST_ROLES: 'api,sweeper',
    SWEEP_INTERVAL_MS: '50',
    sweepAlertMs: 5000,
    NODE_OPTIONS: `--import ${PRELOAD}`,
    CLOCK_STEPS_MS: `${HOUR_MS},${-HOUR_MS},0`,
  });
  cleanUps.push(async () => {
    service.child.kill('SIGTERM');
    await service.ended;
  });
  const client = new HoldfastClient(service.url);
  const tenant = await client.fundedTenant(1_000_000);
  const redisNowMs = async () => Number((await stored.redis.time())[0]) * 1000;
  // Half an hour is between the two wrong clocks.
  const halfAnHour = await client.createKey(tenant.id, {
    expires_at: new Date((await redisNowMs()) + HOUR_MS / 2).toISOString(),
  });
  const load = await JournaledLoad.make(client, randomFrom(5));
  const clients = load.run(1);

  for (const offsetMs of [HOUR_MS, -HOUR_MS, 0]) {
    const hold = async (more: Json = {}): Promise<Json> =>
      expectStatus(
        await client.reserve(tenant, 10, { ttl_ms: HOUR_MS / 2, grace_period_ms: 0, ...more }),
        200,
      );
    const [kept, committed, extended, due] = [
      await hold(),
      await hold(),
      await hold(),
      await hold({ ttl_ms: 1000 }),
    ];
    const key = newKey();
    const first = await client.reserve(tenant, 10, { idempotency_key: key });
    service.child.kill('SIGUSR2');
    await eventually('the clock jumps', () =>
      service.output.stdout.includes(`the clock is off by ${offsetMs} ms`),
    );

    const fresh = await hold();
    expect(Math.abs(fresh.expires_at_ms - HOUR_MS / 2 - (await redisNowMs()))).toBeLessThan(SLACK_MS);
    expectStatus(await client.commit(tenant, committed.reservation_id, 10), 200);
    const { expires_at_ms: until } = expectStatus(
      await client.settle(tenant, 'extend', extended.reservation_id, { extend_by_ms: 1000 }),
      200,
    );
    expect(until).toBe(extended.expires_at_ms + 1000);
    expect(await client.hold(tenant, 10, { idempotency_key: key })).toBe(first.body.reservation_id);
    expectStatus(await client.call('GET', `/v1/balances?tenant=${tenant.id}`, { key: halfAnHour }), 200);

    await eventually(
      'what is due expires',
      async () => (await stateOf(stored, due.reservation_id)) === 'EXPIRED',
    );
    expectRefusal(await client.commit(tenant, due.reservation_id, 10), 410, 'RESERVATION_EXPIRED');
    expect(
      Math.abs(Number((await stored.record(due.reservation_id))['fa']) - (await redisNowMs())),
    ).toBeLessThan(SLACK_MS);
    expect(
      await Promise.all([kept, extended, fresh].map(({ reservation_id: id }) => stateOf(stored, id))),
    ).toEqual(['ACTIVE', 'ACTIVE', 'ACTIVE']);
    expect((await client.call('GET', '/health/ready')).status).toBe(200);
  }

  load.stop();
  await clients;
  expect(load.acknowledged).toHaveLength(load.entries.length);
  await expectExactlyOnce(load, stored.redis);
}, 60_000);

test.each([
  ['ahead', HOUR_MS],
  ['behind', -HOUR_MS],
])(
  "what leaves a host whose clock is an hour %s has Redis' time",
  async (_, offsetMs) => {
    const redis = await startRedis();
    const stored = new StoredHolds(redis.url);
    cleanUps.push(() => stored.close());
    const endpoint = await WebhookReceiver.start();
    cleanUps.push(() => endpoint.stop());
    // Either wrong clock would find another of these keys.
    const keys = [-HOUR_MS / 2, HOUR_MS / 2].reduce(
      (set, fromNowMs) => rotateEvidenceKeys(set, Date.now() + fromNowMs),
      generateEvidenceKeys(Date.now() - 2 * HOUR_MS),
    );
    const service = await startService({
      REDIS_URL: redis.url,
      ADMIN_API_KEY,
      WEBHOOK_SECRET_ENCRYPTION_KEY,
      EVIDENCE_SERVER_ID: 'https://cycles.example.com/v1',
      EVIDENCE_KEYS: keys,
      RATE_LIMIT_PER_KEY_PER_MINUTE: '3',
      tenantMaxLiveReservations: 1,
      NODE_OPTIONS: `--import ${PRELOAD}`,
      CLOCK_OFFSET_MS: String(offsetMs),
    });
    cleanUps.push(async () => {
      service.child.kill('SIGTERM');
      await service.ended;
    });
    const client = new HoldfastClient(service.url);
    // The tests and Redis share one clock.
    const expectNow = (atMs: number): void => expect(Math.abs(atMs - Date.now())).toBeLessThan(SLACK_MS);
    const resetOf = ({ headers }: Answer): number => Number(headers.get('x-ratelimit-reset')) * 1000;

    const security = { blocked_cidr_ranges: [], allow_http: true };
    expectStatus(await client.admin('PUT', '/v1/admin/config/webhook-security', security), 200);
    const tenant = await client.createTenant();
    const made = await client.admin('POST', `/v1/admin/webhooks?tenant_id=${tenant.id}`, {
      url: `${endpoint.url}/hook`,
      event_types: ['reservation.denied'],
    });
    const { subscription, signing_secret: secret } = expectStatus(made, 201);
    await client.createBudget(tenant, '', 100);

    const answers = [await client.reserve(tenant, 1), await client.reserve(tenant, 1)];
    expect(expectStatus(answers[0] as Answer, 200)).toHaveProperty('cycles_evidence');
    expectRefusal(answers[1] as Answer, 429, 'LIMIT_EXCEEDED');
    answers.push(await client.reserve(tenant, 1000), await client.reserve(tenant, 1));
    expectRefusal(answers[2] as Answer, 409, 'BUDGET_EXCEEDED');
    expect(expectRefusal(answers[3] as Answer, 429, 'LIMIT_EXCEEDED').details).toBeUndefined();
    for (const answer of answers) {
      const untilMs = answer === answers[1] ? Number(answer.headers.get('retry-after')) * 1000 : 60_000;
      expectNow(resetOf(answer) - untilMs);
    }

    await eventually('the denial is delivered', () => endpoint.received.length > 0);
    const probe = await client.admin('POST', `/v1/admin/webhooks/${subscription.subscription_id}/test`);
    expect(expectStatus(probe, 200).success).toBe(true);
    for (const { body, headers } of endpoint.received) {
      expect(() => new Webhook(secret as string).verify(body, headers)).not.toThrow();
      expectNow(Date.parse(JSON.parse(body).timestamp));
    }
    expect(endpoint.received).toHaveLength(2);

    const keySet = expectStatus(await client.call('GET', '/v1/.well-known/cycles-jwks.json'), 200);
    expect((keySet.keys as Json[]).map(({ status }) => status as string)).toEqual([
      'retired',
      'active',
      'active',
    ]);
    const page = new ConsoleClient(service.url);
    expectNow((await page.logIn()).body.now_ms as number);
    expectNow((await page.send('GET', '/console/api/session')).body.now_ms as number);
    const live = new LiveReader(service.url, page.cookie);
    await eventually('a snapshot arrives', () => live.events.length > 0);
    expectNow(JSON.parse(live.events[0]?.data ?? '').at_ms as number);
    await live.close();
  },
  60_000,
);
