import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { readPlaces } from '../../src/archive/archive-places.js';
import { RedisService } from '../../src/redis/index.js';
import { readArchive } from '../support/archive.js';
import { eventually } from '../support/eventually.js';
import { expectStatus, Holdfast, type TestTenant } from '../support/holdfast.js';
import { startStore, type Store } from '../support/store.js';

const QUICK = { archiveFlushMs: 0, archiveSettleMs: 0, archiveLeaseMs: 300 } as const;

let redis: Store;
let holdfast: Holdfast;
let root: string;
let tenant: TestTenant;

beforeAll(async () => {
  redis = await startStore();
  root = await mkdtemp(join(tmpdir(), 'archive-'));
  holdfast = await Holdfast.start({
    REDIS_URL: redis.url,
    ARCHIVE_DIR: root,
    ...QUICK,
    HOLDFAST_ROLES: 'api,janitor,archiver',
    LOG_LEVEL: process.env['ARCHIVE_LOG'] ?? 'silent',
  });
  // What ends before the archive begins is archived without what only its request knew.
  await eventually('the archive begins', async () => {
    const places = await readPlaces(holdfast.app.get(RedisService), 'charges');
    return places.size === 64;
  });
  tenant = await holdfast.createTenant();
  await holdfast.createBudget(tenant, '', 1_000_000);
});

afterAll(async () => {
  await holdfast.stop();
  await redis.stop();
  await rm(root, { recursive: true, force: true });
});

const read = (kind?: 'charges' | 'events' | 'audit') =>
  readArchive(root, holdfast.app.get(RedisService), kind);

async function rowOf(recordId: string) {
  return eventually('its row', async () => (await read()).rows.find((row) => row['record_id'] === recordId));
}

describe('a row', () => {
  test('of a commit has what the request, the record and the metrics say', async () => {
    const { body } = await holdfast.call('POST', '/v1/reservations', {
      key: tenant.key,
      body: {
        idempotency_key: 'k-1',
        subject: { tenant: tenant.id, agent: 'Sam', dimensions: { team: 'blue' } },
        action: { kind: 'llm.completion', name: 'gpt', tags: ['a'] },
        estimate: { unit: 'TOKENS', amount: 100 },
        metadata: { note: 'why' },
      },
    });
    const id = body.reservation_id as string;
    const committed = await holdfast.call('POST', `/v1/reservations/${id}/commit`, {
      key: tenant.key,
      body: {
        idempotency_key: 'k-2',
        actual: { unit: 'TOKENS', amount: 80 },
        metrics: {
          tokens_input: 60,
          tokens_output: 20,
          latency_ms: 12,
          model_version: 'm-1',
          custom: { x: 1 },
        },
        metadata: { done: true },
      },
    });
    expectStatus(committed, 200);
    const row = await rowOf(id);
    expect(row).toMatchObject({
      source: 'RESERVATION',
      state: 'COMMITTED',
      tenant: tenant.id,
      scope: `tenant:${tenant.id}/agent:sam`,
      agent: 'sam',
      workspace: null,
      scope_mask: '10',
      unit: 'TOKENS',
      reserved: 100n,
      charged: 80n,
      actual: 80n,
      debt: 0n,
      action_kind: 'llm.completion',
      action_name: 'gpt',
      action_tags: '["a"]',
      dimensions: '{"team":"blue"}',
      metadata: '{"note":"why"}',
      commit_metadata: '{"done":true}',
      idempotency_key: 'k-1',
      request_id: committed.headers.get('x-request-id'),
      model_version: 'm-1',
      tokens_input: 60n,
      tokens_output: 20n,
      latency_ms: 12n,
      custom_metrics: '{"custom":{"x":1}}',
    });
    expect(row['trace_id']).toMatch(/^[0-9a-f]{32}$/);
    expect((row['ended_at'] as Date).getTime()).toBeGreaterThanOrEqual((row['created_at'] as Date).getTime());
  });

  test('of a direct debit has what its event says', async () => {
    const answer = await holdfast.call('POST', '/v1/events', {
      key: tenant.key,
      body: {
        idempotency_key: 'k-3',
        subject: { tenant: tenant.id },
        action: { kind: 'tool.search', name: 'web' },
        actual: { unit: 'TOKENS', amount: 7 },
      },
    });
    const row = await rowOf(expectStatus(answer, 201).event_id as string);
    expect(row).toMatchObject({
      source: 'DIRECT_DEBIT',
      state: 'APPLIED',
      reserved: 0n,
      charged: 7n,
      actual: 7n,
      unit: 'TOKENS',
      scope_mask: '1',
      action_kind: 'tool.search',
      idempotency_key: 'k-3',
      request_id: answer.headers.get('x-request-id'),
    });
  });

  test('of a refund has a negative charge, its own reason, and nothing that a sum would count twice', async () => {
    const refund = (charge: string, amount: number) =>
      holdfast.admin('POST', `/v1/${charge}/refunds`, {
        idempotency_key: `refund of ${charge}`,
        amount: { unit: 'TOKENS', amount },
        reason: 'billed less',
      });
    const id = expectStatus(await holdfast.reserve(tenant, 50), 200).reservation_id as string;
    const settled = await holdfast.commit(tenant, id, 40, {
      metrics: { tokens_input: 30, model_version: 'm-1' },
    });
    expectStatus(settled, 200);
    const debited = await holdfast.call('POST', '/v1/events', {
      key: tenant.key,
      body: {
        idempotency_key: 'k-5',
        subject: { tenant: tenant.id },
        action: { kind: 'tool.search', name: 'web' },
        actual: { unit: 'TOKENS', amount: 7 },
      },
    });
    const eventId = expectStatus(debited, 201).event_id as string;
    const refunds = [await refund(`reservations/${id}`, 30), await refund(`events/${eventId}`, 2)];
    refunds.forEach((answer) => expectStatus(answer, 200));
    for (const [record, charged, action_kind, model_version] of [
      [id, -30n, 'llm.completion', 'm-1'],
      [eventId, -2n, 'tool.search', null],
    ] as const) {
      const row = await eventually('its row', async () =>
        (await read()).rows.find((one) => one['record_id'] === record && one['source'] === 'REFUND'),
      );
      expect(row).toMatchObject({
        ...{ state: 'REFUNDED', charged, reserved: 0n, debt: 0n, actual: null, tokens_input: null },
        ...{ action_kind, model_version, scope_mask: '1', unit: 'TOKENS', tenant: tenant.id },
        ...{ reason: 'billed less', ended_by: 'admin', commit_metadata: null },
        request_id: refunds[record === id ? 0 : 1]?.headers.get('x-request-id'),
      });
    }
  });

  test('names the credits that paid, and what a refund gave back to them', async () => {
    const payer = await holdfast.fundedTenant();
    const grant = {
      ...{ tenant_id: payer.id, scope: `tenant:${payer.id}`, unit: 'TOKENS', name: 'Welcome' },
      ...{ idempotency_key: 'welcome', amount: { unit: 'TOKENS', amount: 30 } },
    };
    const credit = expectStatus(await holdfast.admin('POST', '/ops/budgets/credits', grant), 201)
      .credit_id as string;
    const id = expectStatus(await holdfast.reserve(payer, 25), 200).reservation_id as string;
    expectStatus(await holdfast.commit(payer, id, 20), 200);
    const refund = { idempotency_key: 'back', amount: { unit: 'TOKENS', amount: 5 } };
    expectStatus(await holdfast.admin('POST', `/v1/reservations/${id}/refunds`, refund), 200);
    const debited = await holdfast.call('POST', '/v1/events', {
      key: payer.key,
      body: {
        ...{ idempotency_key: 'debit', subject: { tenant: payer.id } },
        ...{ action: { kind: 'tool.search', name: 'web' }, actual: { unit: 'TOKENS', amount: 40 } },
      },
    });
    expectStatus(debited, 201);
    const rows = await eventually('its rows', async () => {
      const found = (await read()).rows.filter((one) => one['tenant'] === payer.id);
      return found.length === 3 && found;
    });
    expect(Object.fromEntries(rows.map((row) => [row['source'], row['credits']]))).toEqual({
      RESERVATION: `{"${credit}":20}`,
      REFUND: `{"${credit}":-5}`,
      DIRECT_DEBIT: `{"${credit}":15}`,
    });
    const { end } = expectStatus(await holdfast.admin('GET', `/ops/reservations/${id}`), 200);
    expect(end.credits).toEqual([{ credit_id: credit, amount: { unit: 'TOKENS', amount: 20 } }]);
  });

  test('of a release is charged nothing and gives the reason', async () => {
    const id = expectStatus(await holdfast.reserve(tenant, 5), 200).reservation_id as string;
    await holdfast.call('POST', `/v1/reservations/${id}/release`, {
      key: tenant.key,
      body: { idempotency_key: 'k-4', reason: 'changed my mind' },
    });
    expect(await rowOf(id)).toMatchObject({
      state: 'RELEASED',
      reserved: 5n,
      charged: 0n,
      actual: null,
      reason: 'changed my mind',
    });
  });
});

test('a row has nothing of the one before it in the same file', async () => {
  const action = { kind: 'llm.completion', name: 'gpt' };
  const told = {
    subject: { tenant: tenant.id, agent: 'Sam', dimensions: { team: 'blue' } },
    action: { ...action, tags: ['a'] },
    metadata: { note: 'why' },
  };
  const reserve = (key: string, more: object) => ({
    op: 'reserve',
    body: {
      idempotency_key: key,
      subject: { tenant: tenant.id },
      action,
      estimate: { unit: 'TOKENS', amount: 10 },
      ...more,
    },
  });
  const commit = (id: string, key: string, more: object) => ({
    op: 'commit',
    reservation_id: id,
    body: { idempotency_key: key, actual: { unit: 'TOKENS', amount: 9 }, ...more },
  });
  const inOneRun = async (operations: object[]) => {
    const { body } = await holdfast.call('POST', '/v1/batch', { key: tenant.key, body: { operations } });
    return (body.results as { body: { reservation_id: string } }[]).map((one) => one.body.reservation_id);
  };
  const [first = '', second = '', third = ''] = await inOneRun([
    reserve('d-1', told),
    reserve('d-2', {}),
    reserve('d-3', told),
  ]);
  // The calls of a run append their entries at once, so that one page has them all.
  await inOneRun([
    commit(first, 'd-4', { metrics: { tokens_input: 5 }, metadata: { done: true } }),
    commit(second, 'd-5', {}),
    commit(third, 'd-6', {}),
  ]);
  const full = {
    agent: 'sam',
    dimensions: '{"team":"blue"}',
    action_tags: '["a"]',
    metadata: '{"note":"why"}',
    charged: 9n,
  };
  const empty = { agent: null, dimensions: null, action_tags: null, metadata: null, charged: 9n };
  const ofSecond = { scope: `tenant:${tenant.id}`, commit_metadata: null, tokens_input: null };
  expect(await rowOf(first)).toMatchObject({ ...full, tokens_input: 5n, commit_metadata: '{"done":true}' });
  expect(await rowOf(second)).toMatchObject({ ...empty, ...ofSecond, idempotency_key: 'd-2' });
  expect(await rowOf(third)).toMatchObject({ ...full, tokens_input: null, idempotency_key: 'd-3' });
});

test('events and audit rows are archived, too', async () => {
  const event = await eventually('the event of the budget', async () =>
    (await read('events')).rows.find(
      (row) => row['event_type'] === 'budget.created' && row['tenant'] === tenant.id,
    ),
  );
  expect(event).toMatchObject({ scope: `tenant:${tenant.id}` });
  const row = await eventually('the audit row of the budget', async () =>
    (await read('audit')).rows.find(
      (found) => found['operation'] === 'createBudget' && found['owner'] === tenant.id,
    ),
  );
  expect(row).toMatchObject({ status: 201, resource_type: 'budget' });
});

test('without gaps, and through the present, each end is there once', async () => {
  const { rows, gaps, completeThroughMs } = await eventually('the present', async () => {
    const reading = await read();
    return reading.completeThroughMs > 0 && reading;
  });
  expect(gaps).toEqual([]);
  expect(new Set(rows.map(({ entry, partition }) => `${String(partition)} ${String(entry)}`)).size).toBe(
    rows.length,
  );
  expect(completeThroughMs).toBeGreaterThan(0);
  await eventually(
    'its counters agree',
    async () =>
      (await holdfast.metric('holdfast_archive_rows_total', { stream: 'charges' })) === rows.length &&
      (await holdfast.metric('holdfast_archive_partitions')) === 64,
  );
});
