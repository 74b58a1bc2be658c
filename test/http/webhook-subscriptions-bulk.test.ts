import { describe, expect, test } from '@jest/globals';
import { bulkActionKey, webhookIndexKey } from '../../src/redis/keyspace.js';
import { ScriptRegistry } from '../../src/redis/scripts.js';
import { shows } from '../compatibility/shows.js';
import { BulkActionTrace } from '../support/bulk-action-trace.js';
import { expectRefusal, expectStatus, newKey, type Answer, type Json } from '../support/holdfast.js';
import { mastersOf } from '../support/store.js';
import { storedWebhookKey, Subscriber } from '../support/subscriber.js';
import { auditEntriesOf } from '../support/stored-audit.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();
const subscriber = (): Promise<Subscriber> => Subscriber.make(on.holdfast, on.stored);
const BULK = '/v1/admin/webhooks/bulk-action';

const act = (tenant: Subscriber, action: string, more: Record<string, unknown> = {}): Promise<Answer> =>
  on.holdfast.admin('POST', BULK, {
    filter: { tenant_id: tenant.id },
    action,
    idempotency_key: newKey(),
    ...more,
  });
const idsIn = (rows: Json[]): string[] => rows.map(({ id }) => id as string).sort();
const statusOf = async (id: string): Promise<string | null> =>
  on.stored.redis.hget(storedWebhookKey(id), 'st');

async function withSubscriptions(count: number): Promise<{ tenant: Subscriber; ids: string[] }> {
  const tenant = await subscriber();
  const ids: string[] = [];
  for (let made = 0; made < count; made += 1) {
    ids.push((await tenant.made()).subscription_id as string);
  }
  return { tenant, ids: ids.sort() };
}

const changesOf = async (tenant: Subscriber): Promise<Readonly<Record<string, string>>[]> =>
  (await tenant.events()).filter(({ ty }) => ty !== 'webhook.created');

describe('a bulk action', () => {
  test('pauses, resumes and deletes what its filter matches, emits each change with one correlation id, and skips what needs no change', async () => {
    shows('bulk events', 'bulkActionWebhooks');
    const { tenant, ids } = await withSubscriptions(3);
    const [first, second, third] = ids as [string, string, string];
    await on.stored.redis.hset(storedWebhookKey(third), { st: 'DISABLED', cf: '10' });
    expectStatus(await tenant.patch(first, { status: 'PAUSED' }), 200);

    const pause = await act(tenant, 'PAUSE', { expected_count: 3, idempotency_key: 'pause-1' });
    expect(expectStatus(pause, 200)).toEqual({
      action: 'PAUSE',
      total_matched: 3,
      succeeded: [{ id: second }],
      failed: [],
      idempotency_key: 'pause-1',
      skipped: [first, third].map((id) => ({ id, reason: 'ALREADY_IN_TARGET_STATE' })),
    });
    const resumed = expectStatus(await act(tenant, 'RESUME'), 200);
    expect(idsIn(resumed.succeeded)).toEqual([first, second]);
    expect(resumed.failed).toEqual([
      { id: third, error_code: 'INVALID_TRANSITION', message: expect.any(String) },
    ]);
    const deleted = expectStatus(await act(tenant, 'DELETE'), 200);
    expect(idsIn(deleted.succeeded)).toEqual(ids);
    expect(expectStatus(await tenant.list(), 200).subscriptions).toEqual([]);

    const pauseId = pause.headers.get('x-request-id') as string;
    const told = (await changesOf(tenant)).filter(({ rq }) => rq === pauseId);
    expect(told.map(({ ty, subscription_id: id, co }) => [ty, id, co])).toEqual([
      ['webhook.paused', second, `webhook_bulk_action:pause:${pauseId}`],
    ]);
    expect((await changesOf(tenant)).map(({ ty }) => ty)).toEqual([
      'webhook.paused',
      'webhook.paused',
      'webhook.resumed',
      'webhook.resumed',
      'webhook.deleted',
      'webhook.deleted',
      'webhook.deleted',
    ]);
  });

  test('has exactly one audit row, which lists the outcome of each', async () => {
    shows('bulk events');
    const { tenant, ids } = await withSubscriptions(2);
    expectStatus(await tenant.patch(ids[0] as string, { status: 'PAUSED' }), 200);
    const answer = await act(tenant, 'PAUSE');
    const rows = (await auditEntriesOf(on.holdfast, '*')).filter(
      ({ request_id: id }) => id === answer.headers.get('x-request-id'),
    );
    expect(rows).toEqual([
      expect.objectContaining({
        operation: 'bulkActionWebhooks',
        status: 200,
        resource_type: 'webhook',
        tenant_id: '__admin__',
        metadata: expect.objectContaining({
          succeeded_ids: [ids[1]],
          failed_rows: [],
          skipped_rows: [{ id: ids[0], reason: 'ALREADY_IN_TARGET_STATE' }],
          filter: { tenant_id: tenant.id },
          duration_ms: expect.any(Number),
          action: 'PAUSE',
        }),
      }),
    ]);
  });

  test('changes nothing when the number of matches is not the expected one', async () => {
    shows('bulk refusals');
    const { tenant, ids } = await withSubscriptions(2);
    const refusal = expectRefusal(await act(tenant, 'DELETE', { expected_count: 3 }), 409, 'COUNT_MISMATCH');
    expect(refusal.details).toMatchObject({ total_matched: 2, expected_count: 3 });
    expect(
      idsIn(
        (expectStatus(await tenant.list(), 200).subscriptions as Json[]).map(({ subscription_id: id }) => ({
          id,
        })),
      ),
    ).toEqual(ids);
    expect(
      expectStatus(
        await act(tenant, 'PAUSE', { filter: { search: 'nothing-has-this' }, expected_count: 0 }),
        200,
      ),
    ).toMatchObject({ total_matched: 0, succeeded: [] });
  });

  test('is refused as a whole beyond 500 matches, with their number', async () => {
    shows('bulk refusals');
    const { tenant, ids } = await withSubscriptions(1);
    const template = await on.stored.redis.hgetall(storedWebhookKey(ids[0] as string));
    const code = (ids[0] as string).slice(6, 8);
    const more = Array.from({ length: 500 }, (_, index) => `whsub_${code}${String(index).padStart(16, '0')}`);
    const pipeline = on.stored.redis.pipeline();
    for (const id of more) {
      pipeline
        .hset(storedWebhookKey(id), template)
        .zadd(webhookIndexKey(on.stored.tagOf(tenant.id), tenant.id), 0, id);
    }
    await pipeline.exec();
    const answer = await act(tenant, 'PAUSE');
    expect(expectRefusal(answer, 400, 'LIMIT_EXCEEDED').details).toEqual({ total_matched: 501, limit: 500 });
    expect(await statusOf(ids[0] as string)).toBe('ACTIVE');
    expect((await tenant.remove(ids[0] as string)).status).toBe(204);
    expect(expectStatus(await act(tenant, 'DELETE', { expected_count: 500 }), 200).succeeded).toHaveLength(
      500,
    );
  });

  test.each<[string, Record<string, unknown>]>([
    ['an empty filter', { filter: {} }],
    ['a filter without criteria', { filter: { search: '' } }],
    ['an unknown part of the filter', { filter: { url: 'x' } }],
    ['no filter', { filter: undefined }],
    ['an unknown action', { action: 'DISABLE' }],
    ['no idempotency key', { idempotency_key: undefined }],
    ['an endless idempotency key', { idempotency_key: 'x'.repeat(129) }],
    ['a negative count', { expected_count: -1 }],
  ])('with %s is refused', async (_what, more) => {
    shows('bulk refusals');
    expectRefusal(await act(await subscriber(), 'PAUSE', more), 400, 'INVALID_REQUEST');
  });

  test('does not resume a stored subscription that violates the invariants, and fails only that row', async () => {
    shows('no operator events');
    const { tenant, ids } = await withSubscriptions(2);
    const [offender, sound] = ids as [string, string];
    expectStatus(await act(tenant, 'PAUSE'), 200);
    await on.stored.redis.hset(storedWebhookKey(offender), 'ec', 'api_key');
    const body = expectStatus(await act(tenant, 'RESUME'), 200);
    expect(idsIn(body.succeeded)).toEqual([sound]);
    expect(body.failed).toEqual([
      { id: offender, error_code: 'INVALID_REQUEST', message: expect.stringContaining('api_key') },
    ]);
    expect(await statusOf(offender)).toBe('PAUSED');
  });

  test('fails the rows of a closed tenant and those that cannot be read, and continues with the others', async () => {
    shows('subscription after close');
    const [{ tenant, ids }, other] = [await withSubscriptions(1), await withSubscriptions(2)];
    const marked = { name: 'x', url: `https://93.184.216.34/${newKey()}` };
    for (const [owner, id] of [
      [tenant, ids[0]],
      [other.tenant, other.ids[0]],
      [other.tenant, other.ids[1]],
    ] as [Subscriber, string][]) {
      expectStatus(await owner.patch(id, marked), 200);
    }
    await on.stored.setTenantStatus(tenant.id, 'CLOSED');
    const filter = { search: marked.url };
    const body = expectStatus(await act(tenant, 'PAUSE', { filter }), 200);
    expect(idsIn(body.succeeded)).toEqual(other.ids);
    expect(body.failed).toEqual([{ id: ids[0], error_code: 'TENANT_CLOSED', message: expect.any(String) }]);
  });
});

describe('the same bulk action again', () => {
  test('is answered with the first response, and changes nothing', async () => {
    shows('bulk idempotency');
    const { tenant, ids } = await withSubscriptions(2);
    const body = { idempotency_key: newKey(), expected_count: 2 };
    const first = await act(tenant, 'PAUSE', body);
    expectStatus(first, 200);
    expectStatus(await tenant.patch(ids[0] as string, { status: 'ACTIVE' }), 200);
    const again = await act(tenant, 'PAUSE', body);
    expect([again.status, again.text]).toEqual([200, first.text]);
    expect(await statusOf(ids[0] as string)).toBe('ACTIVE');
    expectRefusal(await act(tenant, 'DELETE', body), 409, 'IDEMPOTENCY_MISMATCH');
  });

  test('by several at once happens once, and all get one response', async () => {
    shows('bulk idempotency');
    const { tenant, ids } = await withSubscriptions(6);
    const body = { idempotency_key: newKey() };
    const answers = await Promise.all(Array.from({ length: 4 }, () => act(tenant, 'DELETE', body)));
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    expect(idsIn(expectStatus(answers[0] as Answer, 200).succeeded)).toEqual(ids);
    expect((await changesOf(tenant)).filter(({ ty }) => ty === 'webhook.deleted')).toHaveLength(6);
  });

  test.each(['PAUSE', 'DELETE'])(
    "continues with a %s whose process died in the middle, under the first one's correlation",
    async (action) => {
      shows('bulk idempotency');
      const { tenant, ids } = await withSubscriptions(4);
      const key = newKey();
      const scripts = new ScriptRegistry(on.stored.redis);
      const requestId = `req_${'d'.repeat(23)}${action === 'PAUSE' ? '1' : '2'}`;
      const correlation = `webhook_bulk_action:${action.toLowerCase()}:${requestId}`;
      const body = { idempotency_key: key, filter: { tenant_id: tenant.id } };
      const trace = new BulkActionTrace(scripts, on.stored, requestId, correlation);
      await trace.begin('webhooks', { action, ...body }, ids);
      await trace.changeWebhooks(ids.slice(0, 2), action);

      const response = expectStatus(await act(tenant, action, body), 200);
      expect(idsIn(response.succeeded)).toEqual(ids);
      expect(response).toMatchObject({ total_matched: 4, failed: [], skipped: [] });
      expect((await changesOf(tenant)).map(({ co, rq }) => [co, rq])).toEqual(
        Array(4).fill([correlation, requestId]),
      );
      expect(
        (await auditEntriesOf(on.holdfast, '*')).filter(({ request_id: id }) => id === requestId),
      ).toHaveLength(1);
    },
  );

  test('is a new one once its record has lapsed', async () => {
    const { tenant, ids } = await withSubscriptions(1);
    const body = { idempotency_key: newKey() };
    expectStatus(await act(tenant, 'PAUSE', body), 200);
    expectStatus(await tenant.patch(ids[0] as string, { status: 'ACTIVE' }), 200);
    const pattern = bulkActionKey(on.stored.tagOf('__system__'), '*');
    const records = (
      await Promise.all(mastersOf(on.stored.redis).map((master) => master.keys(pattern)))
    ).flat();
    for (const record of records) {
      expect(await on.stored.redis.pttl(record)).toBeGreaterThan(0);
    }
    await on.stored.redis.del(...records);
    expect(idsIn(expectStatus(await act(tenant, 'PAUSE', body), 200).succeeded)).toEqual(ids);
    expect(await statusOf(ids[0] as string)).toBe('PAUSED');
  });
});
