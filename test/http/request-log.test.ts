import { beforeAll, describe, expect, test } from '@jest/globals';
import { AuditedRequests } from '../../src/audit/audit-log/audited-requests.js';
import { type AuditRow, AuditWriter, MAX_WAITING } from '../../src/audit/audit-log/audit-writer.js';
import {
  type Answer,
  expectRefusal,
  expectStatus,
  type Json,
  newKey,
  type TestTenant,
} from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();

const refused = async (query: string): Promise<Json[]> =>
  expectStatus(await on.holdfast.admin('GET', `/ops/requests?${query}`), 200).requests;

const reserve = (key: string | undefined, tenant: string, amount: number, scope = {}): Promise<Answer> =>
  on.holdfast.call('POST', '/v1/reservations', {
    key,
    body: {
      idempotency_key: newKey(),
      subject: { tenant, ...scope },
      action: { kind: 'llm.completion', name: 'n' },
      estimate: { unit: 'TOKENS', amount },
    },
  });

const writes = (outcome: string): Promise<number> =>
  on.holdfast.metric('cycles_admin_audit_writes_total', { path_class: 'refused', outcome });

const requestIdOf = ({ headers }: Answer): string => headers.get('x-request-id') as string;

describe('the request log', () => {
  let tenant: TestTenant;
  let denied: Answer;
  beforeAll(async () => {
    tenant = await on.holdfast.createTenant();
    await on.holdfast.createBudget(tenant, '/workspace:prod', 100);
    expectStatus(await reserve(tenant.key, tenant.id, 1, { workspace: 'prod' }), 200);
    denied = await reserve(tenant.key, tenant.id, 500, { workspace: 'prod' });
    expectRefusal(denied, 409, 'BUDGET_EXCEEDED');
  });

  test('says why a request was refused, by its id, with key, scope and trace', async () => {
    const scope = `tenant:${tenant.id}/workspace:prod`;
    const rows = await refused(`request_id=${requestIdOf(denied)}`);
    expect(rows).toEqual([
      {
        log_id: expect.stringMatching(/^log_[0-9a-f]{2}r\d+-\d+$/),
        timestamp: expect.any(String),
        tenant_id: tenant.id,
        operation: 'createReservation',
        status: 409,
        error_code: 'BUDGET_EXCEEDED',
        message: denied.body.message,
        scope,
        key_id: expect.stringMatching(/^key_/),
        request_id: requestIdOf(denied),
        trace_id: denied.headers.get('x-cycles-trace-id'),
        source_ip: '127.0.0.1',
        user_agent: 'node',
      },
    ]);
    for (const filter of [
      `scope=${scope}`,
      `scope=tenant:${tenant.id}`,
      `trace_id=${denied.headers.get('x-cycles-trace-id')}`,
      `key_id=${rows[0].key_id}`,
      `tenant_id=${tenant.id}&error_code=BUDGET_EXCEEDED&operation=createReservation&status=409`,
    ]) {
      expect({ filter, rows: await refused(filter) }).toEqual({ filter, rows });
    }
    expect(await refused(`scope=tenant:${tenant.id}/workspace:pro`)).toEqual([]);
  });

  test('has refusals of every status, whoever asked, and no accepted request', async () => {
    const other = await on.holdfast.createTenant();
    const asked = [
      await on.holdfast.call('POST', '/v1/reservations', { key: tenant.key, raw: '{' }),
      await reserve('cyc_live_nobody', tenant.id, 1),
      await reserve(undefined, tenant.id, 1),
      await reserve(tenant.key, other.id, 1),
      await on.holdfast.call('POST', `/v1/reservations/rsv_000123456789abcdef/release`, {
        key: tenant.key,
        body: { idempotency_key: newKey() },
      }),
      await on.holdfast.call('POST', '/v1/reservations', {
        key: tenant.key,
        raw: `"${'x'.repeat(300_000)}"`,
      }),
      await on.holdfast.admin('GET', '/ops/sweeper?typo=1'),
    ];
    const found = await Promise.all(
      asked.map(async (answer) => refused(`request_id=${requestIdOf(answer)}`)),
    );
    expect(found.map(([row]) => [row?.status, row?.error_code, row?.tenant_id])).toEqual([
      [400, 'INVALID_REQUEST', tenant.id],
      [401, 'UNAUTHORIZED', '__unauth__'],
      [401, 'UNAUTHORIZED', '__unauth__'],
      [403, 'FORBIDDEN', tenant.id],
      [404, 'NOT_FOUND', tenant.id],
      [413, 'INVALID_REQUEST', tenant.id],
      [400, 'INVALID_REQUEST', '__admin__'],
    ]);
    expect(found.map(([row]) => row?.operation)).toEqual([
      'createReservation',
      'createReservation',
      'createReservation',
      'createReservation',
      'releaseReservation',
      'createReservation',
      'getSweeper',
    ]);
    const accepted = await reserve(tenant.key, tenant.id, 1, { workspace: 'prod' });
    expectStatus(accepted, 200);
    expect(await refused(`request_id=${requestIdOf(accepted)}`)).toEqual([]);
  });

  test('is read newest first, page by page, for one tenant or across all', async () => {
    const other = await on.holdfast.createTenant();
    const answers: Answer[] = [];
    for (let count = 0; count < 5; count += 1) {
      answers.push(await reserve(count % 2 === 0 ? tenant.key : other.key, 'none-of-both', 1));
    }
    const expected = answers.map(requestIdOf).reverse();
    const read: string[] = [];
    let cursor = '';
    do {
      const page = expectStatus(
        await on.holdfast.admin('GET', `/ops/requests?error_code=FORBIDDEN&limit=2${cursor}`),
        200,
      );
      read.push(...page.requests.map((row: Json) => row.request_id));
      cursor = page.has_more === true ? `&cursor=${encodeURIComponent(page.next_cursor)}` : '';
    } while (cursor !== '');
    expect(read.slice(0, 5)).toEqual(expected);
    expect((await refused(`tenant_id=${other.id}`)).map((row) => row.request_id)).toEqual([
      expected[1],
      expected[3],
    ]);
  });

  test('has a thousand rows of a tenant a minute, and says how many it left out', async () => {
    const flooded = await on.holdfast.createTenant();
    const before = await writes('sampled-out');
    for (let sent = 0; sent < 1005; sent += 67) {
      await Promise.all(Array.from({ length: 67 }, () => reserve(flooded.key, 'another', 1)));
    }
    on.holdfast.app.get(AuditedRequests).endWindow();
    const [summary, newest] = await refused(`tenant_id=${flooded.id}&limit=2`);
    expect(summary).toMatchObject({ operation: 'summary:refused', not_listed: 5, window_ms: 60_000 });
    expect(newest?.operation).toBe('createReservation');
    expect(await writes('sampled-out')).toBe(before + 5);
  });

  test('gives way to the audit log if rows cannot be written as fast as they come, and counts that', async () => {
    const writer = on.holdfast.app.get(AuditWriter);
    const before = await writes('dropped');
    const rowOf = (log: AuditRow['log']): AuditRow => ({
      partitionOf: tenant.id,
      log,
      fields: [['op', 'x']],
    });
    // The first one is under way, and as many wait as may.
    for (let row = 0; row < 1 + MAX_WAITING / 2 + 7; row += 1) {
      writer.write(rowOf('refused'), 'refused');
    }
    writer.write(rowOf('audit'), 'failure');
    expect(writer.size).toBe(MAX_WAITING / 2 + 1);
    expect(await writes('dropped')).toBe(before + 7);
    await writer.drained();
  });

  test('is for operators only', async () => {
    expectRefusal(await on.holdfast.call('GET', '/ops/requests', { key: tenant.key }), 401, 'UNAUTHORIZED');
  });
});
