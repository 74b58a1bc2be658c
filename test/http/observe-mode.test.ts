import { describe, expect, test } from '@jest/globals';
import { shows } from '../compatibility/shows.js';
import { expectRefusal, expectStatus, type Answer, type Json } from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();

const requestIdOf = (answer: Answer): string => answer.headers.get('x-request-id') as string;
const setMode = (id: string, mode: string): Promise<Answer> =>
  on.holdfast.admin('PATCH', `/v1/admin/tenants/${id}`, { observe_mode: mode });

describe('the observe mode of a tenant', () => {
  test('is ENFORCE until it is set, is returned as it was set, and its change is told once', async () => {
    shows('tenant observe mode');
    const { id } = await on.holdfast.createTenant();
    const read = async (): Promise<string> =>
      expectStatus(await on.holdfast.admin('GET', `/v1/admin/tenants/${id}`), 200).observe_mode;
    expect(await read()).toBe('ENFORCE');
    // No change: this is what an unset mode means.
    expect(expectStatus(await setMode(id, 'ENFORCE'), 200).observe_mode).toBe('ENFORCE');
    for (const mode of ['OBSERVE', 'OBSERVE', 'DISABLED', 'ENFORCE']) {
      expect(expectStatus(await setMode(id, mode), 200).observe_mode).toBe(mode);
      expect(await read()).toBe(mode);
    }
    const { body } = await on.holdfast.admin('GET', `/v1/admin/events?tenant_id=${id}&category=tenant`);
    const changes = (body.events as Json[]).filter(({ event_type: type }) => type !== 'tenant.created');
    expect(changes.map((event) => [event.event_type, event.data.changed_fields])).toEqual(
      Array.from({ length: 3 }, () => ['tenant.settings_changed', ['observe_mode']]),
    );
  });

  test('is set at creation, and other settings leave it alone', async () => {
    shows('tenant observe mode');
    const { id } = await on.holdfast.createTenant({ observe_mode: 'OBSERVE' });
    const patched = await on.holdfast.admin('PATCH', `/v1/admin/tenants/${id}`, { name: 'Other' });
    expect(expectStatus(patched, 200).observe_mode).toBe('OBSERVE');
  });

  test('has an audit row for its change', async () => {
    const { id } = await on.holdfast.createTenant();
    const answer = await setMode(id, 'OBSERVE');
    expectStatus(answer, 200);
    const rows = await on.holdfast.admin('GET', `/v1/admin/audit/logs?request_id=${requestIdOf(answer)}`);
    expect(expectStatus(rows, 200).logs).toMatchObject([
      { operation: 'updateTenant', tenant_id: id, status: 200, metadata: { changed_fields: 'observe_mode' } },
    ]);
  });

  test.each([['SHADOW'], ['observe'], [null], [true], ['']])('%j is refused', async (mode) => {
    const { id } = await on.holdfast.createTenant();
    const answer = await on.holdfast.admin('PATCH', `/v1/admin/tenants/${id}`, { observe_mode: mode });
    expect(expectRefusal(answer, 400, 'INVALID_REQUEST').details.field).toBe('observe_mode');
  });

  test('selects tenants of the list', async () => {
    shows('observe mode filters');
    const { id: parent } = await on.holdfast.createTenant();
    const unset = await on.holdfast.createTenant({ parent_tenant_id: parent });
    const modes: string[] = ['DISABLED', 'OBSERVE', 'ENFORCE'];
    const ids: string[] = [];
    for (const mode of modes) {
      ids.push((await on.holdfast.createTenant({ parent_tenant_id: parent, observe_mode: mode })).id);
    }
    const found = async (mode: string): Promise<string[]> => {
      const query = `parent_tenant_id=${parent}&observe_mode=${mode}&sort_dir=asc`;
      const { tenants } = expectStatus(await on.holdfast.admin('GET', `/v1/admin/tenants?${query}`), 200);
      return tenants.map((tenant: Json) => tenant.tenant_id);
    };
    expect(await found('DISABLED')).toEqual([ids[0]]);
    expect(await found('OBSERVE')).toEqual([ids[1]]);
    expect(await found('ENFORCE')).toEqual([unset.id, ids[2]]);
  });
});
