import { describe, expect, test } from '@jest/globals';
import { shows } from '../compatibility/shows.js';
import {
  ADMIN_API_KEY,
  expectRefusal,
  expectStatus,
  newKey,
  reserveBody,
  type Answer,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
/** Not sampled: whoever passes the trace on must not change the flags to 01. */
const TRACEPARENT = `00-${TRACE}-00f067aa0ba902b7-00`;

describe('what follows from a request names it', () => {
  const on = useGovernance();

  const at = (tenant: TestTenant): string => `?scope=tenant:${tenant.id}&unit=TOKENS`;
  const withTrace = (method: string, path: string, body: unknown, key?: string): Promise<Answer> =>
    on.holdfast.call(method, path, {
      body,
      key,
      headers: {
        traceparent: TRACEPARENT,
        ...(key === undefined ? { 'x-admin-api-key': ADMIN_API_KEY } : {}),
      },
    });
  const idsOf = async (tenant: TestTenant, type: string): Promise<(string | undefined)[][]> =>
    (await on.stored.events(tenant.id))
      .filter((event) => event.type === type)
      .map(({ fields }) => [fields['rq'], fields['tr']]);

  const indebtable = (): Promise<TestTenant> =>
    on.holdfast.fundedTenant(10, {}, { overdraft_limit: { unit: 'TOKENS', amount: 50 } });

  test('events of refused and of granted operations, with the flags of the caller', async () => {
    shows('trace of later events', 'request id of events', 'traceparent of delivery');
    const tenant = await indebtable();
    const denied = await withTrace('POST', '/v1/reservations', reserveBody(tenant, 11), tenant.key);
    expectRefusal(denied, 409, 'BUDGET_EXCEEDED');
    const held = expectStatus(
      await on.holdfast.reserve(tenant, 10, { overage_policy: 'ALLOW_WITH_OVERDRAFT' }),
      200,
    );
    const commit = { idempotency_key: newKey(), actual: { unit: 'TOKENS', amount: 12 } };
    const committed = await withTrace(
      'POST',
      `/v1/reservations/${held.reservation_id}/commit`,
      commit,
      tenant.key,
    );
    expectStatus(committed, 200);
    expect(committed.headers.get('x-cycles-trace-id')).toBe(TRACE);
    expect(await idsOf(tenant, 'reservation.denied')).toEqual([
      [denied.headers.get('x-request-id'), `${TRACE}-00`],
    ]);
    for (const type of ['reservation.commit_overage', 'budget.debt_incurred']) {
      expect(await idsOf(tenant, type)).toEqual([[committed.headers.get('x-request-id'), `${TRACE}-00`]]);
    }
  });

  test('events and audit rows of a change by an operator', async () => {
    shows('trace of later events', 'audit correlation');
    const tenant = await indebtable();
    const frozen = await withTrace('POST', `/v1/admin/budgets/freeze${at(tenant)}`, {});
    expectStatus(frozen, 200);
    expect(await idsOf(tenant, 'budget.frozen')).toEqual([
      [frozen.headers.get('x-request-id'), `${TRACE}-00`],
    ]);
    const { logs } = expectStatus(
      await on.holdfast.admin('GET', `/v1/admin/audit/logs?request_id=${frozen.headers.get('x-request-id')}`),
      200,
    );
    expect(logs).toMatchObject([{ operation: 'freezeBudget', trace_id: TRACE }]);
  });

  test('every event and audit row of a closing, though nobody requested them one by one', async () => {
    shows('trace of later events', 'audit correlation');
    const tenant = await indebtable();
    expectStatus(await on.holdfast.reserve(tenant, 1), 200);
    const closed = await withTrace('PATCH', `/v1/admin/tenants/${tenant.id}`, { status: 'CLOSED' });
    expectStatus(closed, 200);
    const ids = [closed.headers.get('x-request-id'), `${TRACE}-00`];
    for (const type of ['reservation.released', 'budget.closed', 'api_key.revoked'].map(
      (kind) => `${kind}_via_tenant_cascade`,
    )) {
      expect(await idsOf(tenant, type)).toEqual([ids]);
    }
    expect(await idsOf(tenant, 'tenant.closed')).toEqual([ids]);
    const { logs } = expectStatus(
      await on.holdfast.admin('GET', `/v1/admin/audit/logs?trace_id=${TRACE}&request_id=${ids[0]}`),
      200,
    );
    expect(logs.map(({ operation }: Json) => operation).sort()).toEqual([
      'api_key.revoked_via_tenant_cascade',
      'budget.closed_via_tenant_cascade',
      'reservation.released_via_tenant_cascade',
      'updateTenant',
    ]);
  });
});
