import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { shows } from '../compatibility/shows.js';
import { eventually } from '../support/eventually.js';
import {
  expectRefusal,
  expectStatus,
  Holdfast,
  newKey,
  reserveBody,
  type TestTenant,
} from '../support/holdfast.js';
import { StoredHolds } from '../support/stored-holds.js';
import { useGovernance } from '../support/use-governance.js';
import { makeDue, makeTenants, sharesBecome, stateOf, TAGS } from '../expiry/instances.js';

describe('two instances that share nothing but Redis', () => {
  const on = useGovernance({}, { HOLDFAST_ROLES: 'api,sweeper', SWEEP_INTERVAL_MS: '50' });
  let other: Holdfast;
  let stored: StoredHolds;
  let tenant: TestTenant;
  beforeAll(async () => {
    other = await Holdfast.start({
      REDIS_URL: on.redis.url,
      HOLDFAST_ROLES: 'api,sweeper',
      SWEEP_INTERVAL_MS: '50',
    });
    stored = new StoredHolds(on.redis.url);
    tenant = await on.holdfast.createTenant();
    await other.createBudget(tenant, '', 1_000_000);
  });
  afterAll(async () => {
    stored.close();
    await other.stop();
  });

  test('give the same response to a request that reaches both at once, however often it is sent', async () => {
    for (let round = 0; round < 5; round += 1) {
      const body = reserveBody(tenant, 10);
      const ask = (instance: Holdfast) =>
        instance.call('POST', '/v1/reservations', { key: tenant.key, body });
      const answers = await Promise.all([on.holdfast, other, on.holdfast, other].map(ask));
      const ids = new Set(answers.map((answer) => expectStatus(answer, 200).reservation_id as string));
      expect(ids.size).toBe(1);
      const [id] = [...ids] as [string];
      const commit = { actual: { unit: 'TOKENS', amount: 7 }, idempotency_key: newKey() };
      const commits = await Promise.all(
        [other, on.holdfast].map((instance) => instance.settle(tenant, 'commit', id, commit)),
      );
      expect(expectStatus(commits[0] as (typeof commits)[0], 200)).toEqual(
        expectStatus(commits[1] as (typeof commits)[0], 200),
      );
      expectRefusal(await other.settle(tenant, 'release', id), 409, 'RESERVATION_FINALIZED');
    }
    expect(await other.balances(tenant)).toEqual(await on.holdfast.balances(tenant));
    expect(Object.values(await other.balances(tenant))).toEqual(['999965 0 35 0']);
  });

  test('a key that one revokes is refused by the other, which had cached it', async () => {
    const made = expectStatus(
      await on.holdfast.admin('POST', '/v1/admin/api-keys', { tenant_id: tenant.id, name: 'short' }),
      201,
    );
    const use = (instance: Holdfast) =>
      instance.call('GET', `/v1/balances?tenant=${tenant.id}`, { key: made.key_secret as string });
    expectStatus(await use(other), 200);
    expectStatus(await on.holdfast.admin('DELETE', `/v1/admin/api-keys/${made.key_id}`), 200);
    expectRefusal(await use(on.holdfast), 401, 'UNAUTHORIZED');
    await eventually('the other one refuses it', async () => (await use(other)).status === 401, 2000);
  });

  test('an observe mode that is set at one applies to the next reserve at the other', async () => {
    shows('observe mode transitions');
    const watched = await on.holdfast.fundedTenant(1000);
    for (const mode of ['ENFORCE', 'OBSERVE', 'DISABLED', 'OBSERVE']) {
      const changed = await on.holdfast.admin('PATCH', `/v1/admin/tenants/${watched.id}`, {
        observe_mode: mode,
      });
      expectStatus(changed, 200);
      const held = expectStatus(await other.reserve(watched, 1), 200);
      expect('reservation_id' in held).toBe(mode !== 'OBSERVE');
    }
  });

  test('the rules for webhook targets that are set at one apply at the other', async () => {
    const subscribe = (instance: Holdfast) =>
      instance.admin('POST', `/v1/admin/webhooks?tenant_id=${tenant.id}`, {
        url: 'http://127.0.0.1:9/hook',
        event_types: ['reservation.denied'],
      });
    expect((await subscribe(other)).status).toBe(400);
    const rules = { blocked_cidr_ranges: [], allow_http: true };
    expectStatus(await on.holdfast.admin('PUT', '/v1/admin/config/webhook-security', rules), 200);
    expect(expectStatus(await other.admin('GET', '/v1/admin/config/webhook-security'), 200)).toMatchObject(
      rules,
    );
    await eventually('the other one takes the target', async () => (await subscribe(other)).status === 201);
  });

  test('share the sweep, sweep each hold once, and each takes over from the other', async () => {
    await sharesBecome(stored, TAGS.length / 2, TAGS.length / 2);
    const tenants = await makeTenants(other, 8);
    const due = async (): Promise<string[]> =>
      (await Promise.all(tenants.map((one) => makeDue(on.holdfast, stored, one, 3)))).flat();
    const expired = async (ids: readonly string[]): Promise<void> => {
      await eventually('they expire', async () =>
        (await Promise.all(ids.map((id) => stateOf(stored, id)))).every((state) => state === 'EXPIRED'),
      );
    };
    const swept = () =>
      Promise.all(
        [on.holdfast, other].map((instance) => instance.metric('cycles_reservations_expired_total')),
      );
    await expired(await due());
    await eventually(
      'all are counted, once',
      async () => (await swept()).reduce((sum, count) => sum + count, 0) === 24,
    );
    await other.stop();
    await expired(await due());
    expect(await on.holdfast.metric('cycles_reservations_expired_total')).toBeGreaterThanOrEqual(24);
  });
});
