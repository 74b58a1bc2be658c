import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { AuditedRequests } from '../../src/audit/audit-log/audited-requests.js';
import { shows } from '../compatibility/shows.js';
import { expectStatus, type Answer, type Json } from '../support/holdfast.js';
import { ROWS } from './operations/index.js';
import type { OperationRow } from './operations/table.js';
import { World, type Sample } from './operations/world.js';

/** Each served operation leaves the audit rows that the documents require. */

let world: World;
let own: ReadonlyMap<string, { path: string; method: string }>;

beforeAll(async () => {
  world = await World.start();
  const document = JSON.parse((await world.holdfast.call('GET', '/openapi.json')).text) as {
    paths: Record<string, Record<string, { operationId: string }>>;
  };
  own = new Map(
    Object.entries(document.paths).flatMap(([path, item]) =>
      Object.entries(item).map(
        ([method, { operationId }]) => [operationId, { path, method: method.toUpperCase() }] as const,
      ),
    ),
  );
});

afterAll(() => world.stop());

async function rowsOf(answer: Answer): Promise<Json[]> {
  const listed = await world.holdfast.admin(
    'GET',
    `/v1/admin/audit/logs?request_id=${answer.headers.get('x-request-id')}`,
  );
  return expectStatus(listed, 200).logs as Json[];
}

/** The row of the request itself, not of its consequences. */
async function onlyRowOf(answer: Answer): Promise<Json> {
  const rows = (await rowsOf(answer)).filter(
    ({ operation }: Json) => !/_via_tenant_cascade$/.test(operation as string),
  );
  expect(rows).toHaveLength(1);
  const [row] = rows;
  expect(row).toMatchObject({
    status: answer.status,
    request_id: answer.headers.get('x-request-id'),
    trace_id: answer.headers.get('x-cycles-trace-id'),
    source_ip: '127.0.0.1',
    user_agent: 'node',
  });
  return row;
}

/** What the row of a failure must record, compared with the row of a success. */
function expectFailure(id: string, row: Json, answer: Answer): void {
  const { path, method } = own.get(id) as { path: string; method: string };
  expect(row).toMatchObject({ operation: `${method}:${path}`, error_code: answer.body.error });
  expect(row.metadata.message).toBe((answer.body.message as string).slice(0, 1024));
}

const isGovernance = ({ id }: OperationRow): boolean => {
  const { path, method } = own.get(id) as { path: string; method: string };
  return /^\/v1\/(admin|auth|webhooks)\b/.test(path) || (path === '/v1/events' && method === 'GET');
};

const who = ({ tenant }: Sample): string => (tenant === undefined ? 'admin' : 'api_key');

test.each(ROWS.map((row): [string, OperationRow] => [row.id, row]))('%s', async (_id, row) => {
  shows('audit row per request');
  const sample = await row.sample(world);
  const answer = await world.send(sample);
  if (!isGovernance(row)) {
    expect(await rowsOf(answer)).toEqual([]);
    return;
  }
  const success = await onlyRowOf(answer);
  expect(success).toMatchObject({
    operation: row.id,
    metadata: { actor_type: expect.stringMatching(who(sample)) },
  });
  expect(success).not.toHaveProperty('error_code');
  expect(success.tenant_id).toEqual(sample.tenant?.id ?? expect.stringMatching(/^(__admin__|t-[0-9a-f]+)$/));

  // A request without credentials, although the operation is known.
  world.holdfast.app.get(AuditedRequests).endWindow();
  const counted = (): Promise<number> =>
    world.holdfast.metric('holdfast_governance_changes_total', {
      operation: row.id,
      outcome: 'UNAUTHORIZED',
    });
  const before = await counted();
  const stranger = await world.holdfast.call(sample.method, sample.path, { body: sample.body });
  expect((await counted()) - before).toBe(sample.method === 'GET' ? 0 : 1);
  const unauthenticated = await onlyRowOf(stranger);
  expectFailure(row.id, unauthenticated, stranger);
  expect(unauthenticated).toMatchObject({
    tenant_id: '__unauth__',
    status: 401,
    error_code: 'UNAUTHORIZED',
    metadata: { actor_type: 'unauthenticated' },
  });

  for (const refusal of row.others.filter(({ code }) => code !== undefined)) {
    const refused = await refusal.run(world);
    // The router refuses an overlong part of the path before it finds the operation.
    if (!/part of the path is too long/.test(refused.body.message as string)) {
      const failed = await onlyRowOf(refused);
      expectFailure(row.id, failed, refused);
      expect(failed.tenant_id).toMatch(/^(__admin__|t-[0-9a-f]+)$/);
    }
  }
});

describe('an operator', () => {
  test('leaves a row on the runtime plane for a release, and none for reads, repetitions and failures', async () => {
    const { tenant, id } = await world.held();
    expect(await rowsOf(await world.send({ method: 'GET', path: `/v1/reservations/${id}` }))).toEqual([]);
    const release = {
      method: 'POST',
      path: `/v1/reservations/${id}/release`,
      body: { idempotency_key: 'once' },
    };
    const released = await world.send(release);
    expect(await onlyRowOf(released)).toMatchObject({
      operation: 'releaseReservation',
      tenant_id: tenant.id,
      metadata: { actor_type: 'admin_on_behalf_of' },
    });
    expect(await rowsOf(await world.send(release))).toEqual([]);
    const refused = await world.send({ ...release, body: { idempotency_key: 'again' } });
    expect([refused.status, await rowsOf(refused)]).toEqual([409, []]);
  });

  test.each([
    '/ops/sweeper',
    '/ops/verify',
    '/ops/quarantine',
    '/ops/expirations?from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z',
    '/ops/expirations/counts?from=0&to=1',
  ])('leaves a row for %s', async (path) => {
    expect(await onlyRowOf(await world.holdfast.admin('GET', path))).toMatchObject({
      tenant_id: '__admin__',
      status: 200,
    });
  });

  test('has a row for requests refused before their key was checked', async () => {
    shows('audit row per request', 'admin sentinel');
    const headers = { 'x-admin-api-key': 'test-admin-key-0123456789' };
    const broken = await world.holdfast.call('POST', '/v1/admin/tenants', { raw: '{', headers });
    expect(await onlyRowOf(broken)).toMatchObject({
      operation: 'POST:/v1/admin/tenants',
      tenant_id: '__admin__',
      status: 400,
      error_code: 'INVALID_REQUEST',
    });
    const unknown = await world.holdfast.call('GET', '/v1/admin/nothing', { headers });
    expect(await onlyRowOf(unknown)).toMatchObject({
      operation: 'GET:/v1/admin/nothing',
      tenant_id: '__admin__',
      status: 404,
    });
    const method = await world.holdfast.call('DELETE', '/v1/admin/tenants', { headers });
    expect(await onlyRowOf(method)).toMatchObject({
      operation: 'DELETE:/v1/admin/tenants',
      tenant_id: '__admin__',
      status: 405,
    });
    const long = await world.holdfast.call('GET', `/v1/admin/tenants/${'a'.repeat(300)}`, { headers });
    expect(await onlyRowOf(long)).toMatchObject({
      tenant_id: '__admin__',
      status: 400,
      resource_type: 'tenant',
    });
    const crooked = await world.holdfast.call('GET', '/v1/admin/tenants/%zz', {});
    expect(await onlyRowOf(crooked)).toMatchObject({ tenant_id: '__unauth__', status: 400 });
  });
});

test('a change that was made, and a repetition that made none, have one row each', async () => {
  shows('audit row per request');
  const tenant = await world.tenant();
  const same = { method: 'PATCH', path: `/v1/admin/tenants/${tenant.id}`, body: { name: 'Same' } };
  const changed = await onlyRowOf(await world.send(same));
  expect(changed).toMatchObject({
    operation: 'updateTenant',
    tenant_id: tenant.id,
    metadata: { changed_fields: 'name' },
  });
  const repeated = await onlyRowOf(await world.send(same));
  expect(repeated).toMatchObject({
    operation: 'updateTenant',
    tenant_id: '__admin__',
    resource_id: tenant.id,
  });
  expect(repeated.metadata).not.toHaveProperty('changed_fields');
});
