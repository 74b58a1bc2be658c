import { createHash } from 'node:crypto';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { AuditedRequests } from '../../src/audit/audit-log/audited-requests.js';
import { type Answer, expectRefusal, expectStatus, type Json, type TestTenant } from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();

const ask = (name: string): Promise<Answer> =>
  on.holdfast.admin('GET', `/ops/api-keys/${encodeURIComponent(name)}`);
const bySecret = (secret: string): Promise<Answer> =>
  ask(`${secret.slice(0, 'cyc_live_00'.length)}:${createHash('sha256').update(secret).digest('base64url')}`);

describe('an API key is found', () => {
  let tenant: TestTenant;
  let listed: Json;
  beforeAll(async () => {
    tenant = await on.holdfast.createTenant();
    const answer = await on.holdfast.admin('GET', `/v1/admin/api-keys?tenant_id=${tenant.id}`);
    [listed] = expectStatus(answer, 200).keys;
  });

  test('by its id', async () => {
    expect(expectStatus(await ask(listed.key_id), 200)).toEqual(listed);
  });

  test('by the hash of its secret, also once it is revoked', async () => {
    expect(expectStatus(await bySecret(tenant.key), 200)).toEqual(listed);
    const path = `/v1/admin/api-keys/${listed.key_id}?reason=leaked`;
    expectStatus(await on.holdfast.admin('DELETE', path), 200);
    expect(expectStatus(await bySecret(tenant.key), 200)).toMatchObject({
      key_id: listed.key_id,
      status: 'REVOKED',
      revoked_reason: 'leaked',
    });
  });

  test('only if there is one', async () => {
    expectRefusal(await ask('key_000123456789abcdef'), 404, 'NOT_FOUND');
    expectRefusal(await ask('cyc_live_00'), 404, 'NOT_FOUND');
    expectRefusal(await bySecret(`${tenant.key.slice(0, -1)}_`), 404, 'NOT_FOUND');
    expectRefusal(await bySecret(`cyc_live_ff${tenant.key.slice(11)}`), 404, 'NOT_FOUND');
  });

  test('by its id without a row in any log, and by a secret with one', async () => {
    const rowsOf = async ({ headers }: Answer): Promise<Json[]> => {
      await on.holdfast.app.get(AuditedRequests).settled();
      const query = `request_id=${headers.get('x-request-id')}`;
      const { logs } = expectStatus(await on.holdfast.admin('GET', `/v1/admin/audit/logs?${query}`), 200);
      const { requests } = expectStatus(await on.holdfast.admin('GET', `/ops/requests?${query}`), 200);
      return [...logs, ...requests];
    };
    expect(await rowsOf(await ask(listed.key_id))).toEqual([]);
    expect(await rowsOf(await ask('key_000123456789abcdef'))).toEqual([]);
    expect(await rowsOf(await bySecret(tenant.key))).toMatchObject([{ operation: 'findApiKey' }]);
    expect(await rowsOf(await bySecret(`${tenant.key.slice(0, -1)}_`))).toHaveLength(2);
  });
});
