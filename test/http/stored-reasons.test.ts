import { describe, expect, test } from '@jest/globals';
import { auditLogKey, eventLogKey, reservationKey, tagOfReservationId } from '../../src/redis/keyspace.js';
import { expectStatus, newKey, type TestTenant } from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const PARTITIONS = 64;
const on = useGovernance();

/**
 * Characters that end a line for some reader, control a terminal or change the writing direction, and the
 * text that is stored instead.
 */
const REASON = '\r\nleaked\r\nlevel=info\n\u0085\u2028FORGED\u001b[2K\u0000\u202eend\t\u007f\n';
const STORED = 'leaked level=info FORGED [2K end';

async function held(): Promise<{ tenant: TestTenant; id: string; tag: string }> {
  const tenant = await on.holdfast.fundedTenant(100);
  const id = await on.holdfast.hold(tenant, 10);
  return { tenant, id, tag: tagOfReservationId(id, PARTITIONS) as string };
}

/** The `reason` of each entry in a log of the tenant's partition that has one. */
async function reasonsIn(log: string): Promise<string[]> {
  const entries = await on.stored.redis.xrange(log, '-', '+');
  return entries.flatMap(([, fields]) =>
    fields.filter((_, index) => fields[index - 1] === 'reason' && index % 2 === 1),
  );
}

describe('a reason with line breaks and control characters is stored on one line', () => {
  test('of a release, by a tenant or an operator, whose repetition still counts as the same request', async () => {
    const own = await held();
    const release = { idempotency_key: newKey(), reason: REASON };
    const answer = await on.holdfast.settle(own.tenant, 'release', own.id, release);
    expectStatus(answer, 200);
    expect((await on.holdfast.settle(own.tenant, 'release', own.id, release)).text).toBe(answer.text);
    const other = await held();
    expectStatus(
      await on.holdfast.admin('POST', `/v1/reservations/${other.id}/release`, {
        idempotency_key: newKey(),
        reason: REASON,
      }),
      200,
    );
    for (const { id, tag } of [own, other]) {
      expect(await on.stored.redis.hget(reservationKey(tag, id), 'rr')).toBe(STORED);
    }
    expect(await reasonsIn(auditLogKey(other.tag))).toContain(STORED);
  });

  test('of a release that has no other characters is not stored', async () => {
    const { tenant, id, tag } = await held();
    expectStatus(
      await on.holdfast.settle(tenant, 'release', id, { idempotency_key: newKey(), reason: '\r\n\u2028' }),
      200,
    );
    expect(await on.stored.redis.hexists(reservationKey(tag, id), 'rr')).toBe(0);
  });

  test('of a decision on a quarantined reservation', async () => {
    const { id, tag } = await held();
    await on.stored.redis.hset(reservationKey(tag, id), { am: 'odd', ex: '1000' });
    await on.holdfast.admin('GET', `/ops/reservations/${id}`);
    expectStatus(
      await on.holdfast.admin('POST', `/ops/quarantine/${id}/decide`, { action: 'release', reason: REASON }),
      200,
    );
    expect(await on.stored.redis.hget(reservationKey(tag, id), 'rr')).toBe(STORED);
    expect(await reasonsIn(eventLogKey(tag))).toContain(STORED);
  });

  test('of a funding, a freeze and the revocation of a key', async () => {
    const { tenant, tag } = await held();
    const at = `scope=tenant:${tenant.id}&unit=TOKENS`;
    const fund = { operation: 'CREDIT', amount: { unit: 'TOKENS', amount: 1 }, reason: REASON };
    expectStatus(
      await on.holdfast.admin('POST', `/v1/admin/budgets/fund?tenant_id=${tenant.id}&${at}`, fund),
      200,
    );
    expectStatus(await on.holdfast.admin('POST', `/v1/admin/budgets/freeze?${at}`, { reason: REASON }), 200);
    expectStatus(
      await on.holdfast.admin('POST', `/v1/admin/budgets/unfreeze?${at}`, { reason: REASON }),
      200,
    );
    const { key_id: keyId } = expectStatus(
      await on.holdfast.admin('POST', '/v1/admin/api-keys', { tenant_id: tenant.id, name: 'n' }),
      201,
    );
    const revoked = await on.holdfast.admin(
      'DELETE',
      `/v1/admin/api-keys/${keyId}?reason=${encodeURIComponent(REASON)}`,
    );
    expect(expectStatus(revoked, 200).revoked_reason).toBe(STORED);
    const reasons = [...(await reasonsIn(auditLogKey(tag))), ...(await reasonsIn(eventLogKey(tag)))];
    expect(reasons.length).toBeGreaterThanOrEqual(6);
    expect(new Set(reasons)).toEqual(new Set([STORED]));
  });
});
