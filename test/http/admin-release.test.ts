import { describe, expect, test } from '@jest/globals';
import { auditLogKey } from '../../src/redis/keyspace.js';
import { shows } from '../compatibility/shows.js';
import {
  expectRefusal,
  expectStatus,
  newKey,
  type Answer,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

describe('an operator releases on behalf of a tenant', () => {
  const on = useGovernance();

  const release = (id: string, body: Record<string, unknown> = {}): Promise<Answer> =>
    on.holdfast.admin('POST', `/v1/reservations/${id}/release`, { idempotency_key: newKey(), ...body });
  const rowsOf = async (id: string): Promise<Json[]> =>
    expectStatus(await on.holdfast.admin('GET', `/v1/admin/audit/logs?resource_id=${id}`), 200).logs;

  async function held(amount = 30): Promise<{ tenant: TestTenant; id: string }> {
    const tenant = await on.holdfast.fundedTenant(100);
    const { reservation_id } = expectStatus(await on.holdfast.reserve(tenant, amount), 200);
    return { tenant, id: reservation_id as string };
  }

  test('the hold goes back, and exactly one audit row says who did it, why and under which request', async () => {
    shows('operator any reservation', 'operator release audited', 'releaseReservation');
    const { tenant, id } = await held();
    const answer = await release(id, { reason: '[INCIDENT_FORCE_RELEASE]' });
    expect(expectStatus(answer, 200)).toMatchObject({ status: 'RELEASED', released: { amount: 30 } });
    expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '100 0 0 0' });
    const rows = await rowsOf(id);
    expect(rows).toHaveLength(1);
    expect(rows[0]).toMatchObject({
      tenant_id: tenant.id,
      operation: 'releaseReservation',
      status: 200,
      resource_type: 'reservation',
      resource_id: id,
      request_id: answer.headers.get('x-request-id'),
      trace_id: answer.headers.get('x-cycles-trace-id'),
      metadata: {
        actor_type: 'admin_on_behalf_of',
        tenant_id: tenant.id,
        reason: '[INCIDENT_FORCE_RELEASE]',
        amount: '30',
        unit: 'TOKENS',
      },
    });
    expect(rows[0]).not.toHaveProperty('key_id');
    expect(
      await on.holdfast.metric('cycles_reservations_release_total', {
        tenant: tenant.id,
        actor_type: 'admin_on_behalf_of',
        reason: 'OK',
      }),
    ).toBe(1);
  });

  test('a repetition gets the same response and adds no row', async () => {
    const { id } = await held();
    const key = newKey();
    const answers = await Promise.all(Array.from({ length: 5 }, () => release(id, { idempotency_key: key })));
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(await rowsOf(id)).toHaveLength(1);
    expectRefusal(await release(id, { idempotency_key: key, reason: 'x' }), 409, 'IDEMPOTENCY_MISMATCH');
  });

  test("a refused release leaves no row: of an ended hold, an unknown one, or a closed tenant's", async () => {
    const { tenant, id } = await held();
    expectStatus(await on.holdfast.commit(tenant, id, 1), 200);
    expectRefusal(await release(id), 409, 'RESERVATION_FINALIZED');
    expectRefusal(await release('rsv_000000000000000000'), 404, 'NOT_FOUND');
    const other = await held();
    await on.stored.setTenantStatus(other.tenant.id, 'CLOSED');
    expectRefusal(await release(other.id), 409, 'TENANT_CLOSED');
    expect([...(await rowsOf(id)), ...(await rowsOf(other.id))]).toEqual([]);
  });

  test("a tenant's own release leaves no audit row, and a wrong admin key is refused beside a good API key", async () => {
    const { tenant, id } = await held();
    const path = `/v1/reservations/${id}/release`;
    const wrong = {
      key: tenant.key,
      headers: { 'x-admin-api-key': 'wrong' },
      body: { idempotency_key: newKey() },
    };
    expectRefusal(await on.holdfast.call('POST', path, wrong), 401, 'UNAUTHORIZED');
    expectStatus(await on.holdfast.settle(tenant, 'release', id), 200);
    expect(await rowsOf(id)).toEqual([]);
  });

  test('a suspended tenant does not prevent it', async () => {
    shows('suspended settlement');
    const { tenant, id } = await held();
    await on.stored.setTenantStatus(tenant.id, 'SUSPENDED');
    expectStatus(await release(id), 200);
  });

  test('racing with a commit, one of them wins, and a row is there exactly when the release did', async () => {
    for (let round = 0; round < 10; round += 1) {
      const { tenant, id } = await held();
      const [committed, released] = await Promise.all([on.holdfast.commit(tenant, id, 5), release(id)]);
      expect([committed.status, released.status].sort()).toEqual([200, 409]);
      expect(await rowsOf(id)).toHaveLength(released.status === 200 ? 1 : 0);
    }
  });

  test('the row is written in the same step: if the log accepts none, nothing is released', async () => {
    shows('operator release audited');
    const { tenant, id } = await held();
    const key = auditLogKey(on.stored.tagOf(tenant.id));
    await on.stored.redis.rename(key, `${key}-away`);
    await on.stored.redis.set(key, 'no stream');
    try {
      expectRefusal(await release(id), 500, 'INTERNAL_ERROR');
      expect(await on.holdfast.balances(tenant)).toEqual({ [`tenant:${tenant.id}`]: '70 30 0 0' });
    } finally {
      await on.stored.redis.rename(`${key}-away`, key);
    }
    expectStatus(await release(id), 200);
  });
});
