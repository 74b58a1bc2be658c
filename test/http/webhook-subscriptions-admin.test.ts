import { describe, expect, test } from '@jest/globals';
import { shows } from '../compatibility/shows.js';
import { auditEntriesOf } from '../support/stored-audit.js';
import { expectRefusal, expectStatus, type Answer, type Json } from '../support/holdfast.js';
import { PUBLIC_URL, storedWebhookKey, Subscriber } from '../support/subscriber.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();
const subscriber = (): Promise<Subscriber> => Subscriber.make(on.holdfast, on.stored);
const ADMIN = '/v1/admin/webhooks';

const create = (query = '', more: Record<string, unknown> = {}): Promise<Answer> =>
  on.holdfast.admin('POST', ADMIN + query, { url: PUBLIC_URL, event_types: ['tenant.created'], ...more });
const made = async (query = '', more: Record<string, unknown> = {}): Promise<Json> =>
  expectStatus(await create(query, more), 201).subscription;
const list = async (query = ''): Promise<Json> =>
  expectStatus(await on.holdfast.admin('GET', ADMIN + query), 200);
const ids = ({ subscriptions }: Json): string[] =>
  (subscriptions as Json[]).map(({ subscription_id: id }) => id as string);
const systemEvents = async (id: string): Promise<Readonly<Record<string, string>>[]> =>
  (await on.stored.events('__system__'))
    .map(({ fields }) => fields)
    .filter((fields) => fields['subscription_id'] === id);

describe('an operator', () => {
  test("subscribes to the events of all tenants, the operators' own included", async () => {
    shows('operator subscription', 'createWebhookSubscription', 'getWebhookSubscription');
    for (const query of ['', '?tenant_id=', '?tenant_id=__system__']) {
      const subscription = await made(query, {
        event_types: ['api_key.revoked'],
        event_categories: ['system', 'policy', 'webhook'],
      });
      expect(subscription).toMatchObject({ tenant_id: '__system__', status: 'ACTIVE' });
      expect(
        expectStatus(await on.holdfast.admin('GET', `${ADMIN}/${subscription.subscription_id}`), 200),
      ).toEqual(subscription);
      expect(await systemEvents(subscription.subscription_id)).toEqual([
        expect.objectContaining({ ty: 'webhook.created', tn: '__system__', ac: 'admin' }),
      ]);
    }
  });

  test("subscribes a tenant to its own events, and to none of the operators'", async () => {
    shows('no operator events');
    const tenant = await subscriber();
    const subscription = await made(`?tenant_id=${tenant.id}`);
    expect(subscription.tenant_id).toBe(tenant.id);
    expect(expectStatus(await tenant.list(), 200).subscriptions).toEqual([subscription]);
    const selectors = [{ event_types: ['policy.created'] }, { event_categories: ['webhook'] }];
    for (const more of selectors) {
      expectRefusal(await create(`?tenant_id=${tenant.id}`, more), 400, 'INVALID_REQUEST');
      expectRefusal(
        await on.holdfast.admin('PATCH', `${ADMIN}/${subscription.subscription_id}`, more),
        400,
        'INVALID_REQUEST',
      );
      expectRefusal(
        await on.holdfast.admin('PATCH', `/v1/webhooks/${subscription.subscription_id}`, more),
        400,
        'INVALID_REQUEST',
      );
    }
    for (const nobody of ['nobody-at-all', 'No Body', '__SYSTEM__']) {
      expectRefusal(await create(`?tenant_id=${encodeURIComponent(nobody)}`), 404, 'TENANT_NOT_FOUND');
    }
  });

  test('changes and deletes any subscription, on either plane, and the audit log says as whom', async () => {
    shows(
      'operator webhook audit',
      'updateWebhookSubscription',
      'deleteWebhookSubscription',
      'deleteTenantWebhook',
    );
    const tenant = await subscriber();
    const { subscription_id: id } = await tenant.made();
    expectStatus(await on.holdfast.admin('PATCH', `${ADMIN}/${id}`, { name: 'x' }), 200);
    expectStatus(
      await on.holdfast.admin('PATCH', `/v1/webhooks/${id}`, {
        status: 'PAUSED',
        metadata: { reason: '[WEBHOOK_PAUSE] INC-1' },
      }),
      200,
    );
    expect(expectStatus(await on.holdfast.admin('GET', `/v1/webhooks/${id}`), 200)).toMatchObject({
      status: 'PAUSED',
    });
    expect((await on.holdfast.admin('DELETE', `/v1/webhooks/${id}`)).status).toBe(204);
    const { subscription_id: other } = await tenant.made();
    expect((await on.holdfast.admin('DELETE', `${ADMIN}/${other}`)).status).toBe(204);
    expectRefusal(await on.holdfast.admin('DELETE', `${ADMIN}/${other}`), 404, 'WEBHOOK_NOT_FOUND');
    expect((await tenant.events()).map(({ ty, ac }) => [ty, ac])).toEqual([
      ['webhook.created', 'api_key'],
      ['webhook.updated', 'admin'],
      ['webhook.paused', 'admin_on_behalf_of'],
      ['webhook.deleted', 'admin_on_behalf_of'],
      ['webhook.created', 'api_key'],
      ['webhook.deleted', 'admin'],
    ]);
    const rows = await auditEntriesOf(on.holdfast, id as string);
    expect(
      rows.map(({ operation, status, tenant_id, metadata }) => [
        operation,
        status,
        tenant_id,
        metadata.actor_type,
      ]),
    ).toEqual([
      ['createTenantWebhook', 201, tenant.id, 'api_key'],
      ['updateWebhookSubscription', 200, tenant.id, 'admin'],
      ['updateTenantWebhook', 200, tenant.id, 'admin_on_behalf_of'],
      ['deleteTenantWebhook', 204, tenant.id, 'admin_on_behalf_of'],
    ]);
  });

  test("lists a tenant's on the tenants' plane by naming it, which a tenant must not", async () => {
    shows('operator lists webhooks', 'listTenantWebhooks');
    const tenant = await subscriber();
    const one = await tenant.made();
    const refusal = expectRefusal(await on.holdfast.admin('GET', '/v1/webhooks'), 400, 'INVALID_REQUEST');
    expect(refusal.message).toBe('tenant query parameter is required when using admin key authentication');
    expect(expectStatus(await on.holdfast.admin('GET', `/v1/webhooks?tenant=${tenant.id}`), 200)).toEqual({
      subscriptions: [one],
      has_more: false,
    });
    expect(
      expectStatus(await on.holdfast.admin('GET', '/v1/webhooks?tenant=nobody'), 200).subscriptions,
    ).toEqual([]);
    for (const named of [tenant.id, 'nobody']) {
      expectRefusal(await tenant.list(`?tenant=${named}`), 400, 'INVALID_REQUEST');
    }
  });
});

describe('the list', () => {
  test('has the subscriptions of all owners, and is filtered by owner, status, event type and text', async () => {
    shows('webhook lists', 'listWebhookSubscriptions');
    const [one, two] = [await subscriber(), await subscriber()];
    const a = await one.made({ url: `${PUBLIC_URL}/Alpha` });
    const b = await two.made({ event_types: ['budget.funded', 'tenant.closed'] });
    const c = await made('', { event_categories: ['budget'] });
    expectStatus(await two.patch(b.subscription_id, { status: 'PAUSED' }), 200);
    const all = ids(await list('?limit=100'));
    for (const { subscription_id: id } of [a, b, c]) {
      expect(all).toContain(id);
    }
    expect(ids(await list(`?tenant_id=${one.id}`))).toEqual([a.subscription_id]);
    expect(ids(await list('?tenant_id=__system__'))).toContain(c.subscription_id);
    expect(ids(await list('?tenant_id=__system__'))).not.toContain(a.subscription_id);
    expect(ids(await list(`?tenant_id=${two.id}&status=PAUSED`))).toEqual([b.subscription_id]);
    expect(ids(await list(`?tenant_id=${two.id}&status=ACTIVE`))).toEqual([]);
    expect(ids(await list(`?tenant_id=${two.id}&event_type=tenant.closed`))).toEqual([b.subscription_id]);
    expect(ids(await list(`?tenant_id=${one.id}&event_type=tenant.closed`))).toEqual([]);
    expect(ids(await list('?search=ALPHA'))).toEqual([a.subscription_id]);
    expect(ids(await list(`?search=${(a.subscription_id as string).toLowerCase()}`))).toEqual([
      a.subscription_id,
    ]);
    expect(ids(await list(`?tenant_id=${one.id}&search=`))).toEqual([a.subscription_id]);
    expect(ids(await list('?tenant_id=nobody'))).toEqual([]);
  });

  test('is listed page by page in every order, even while rows are deleted', async () => {
    shows('webhook lists');
    const tenant = await subscriber();
    const rows: Json[] = [];
    for (let count = 0; count < 9; count += 1) {
      rows.push(await tenant.made({ url: `${PUBLIC_URL}/${count % 3}` }));
      await on.stored.redis.hset(storedWebhookKey(rows.at(-1)?.subscription_id as string), 'cf', count % 4);
    }
    const walk = async (sort: string): Promise<Json[]> => {
      const seen: Json[] = [];
      for (let cursor = ''; ;) {
        const page = await list(`?tenant_id=${tenant.id}&limit=2${sort}${cursor}`);
        seen.push(...(page.subscriptions as Json[]));
        if (page.has_more !== true) {
          return seen;
        }
        cursor = `&cursor=${page.next_cursor}`;
      }
    };
    const failures = (found: Json[]): number[] =>
      found.map(({ consecutive_failures: count }) => count as number);
    expect(failures(await walk(''))).toEqual([3, 3, 2, 2, 1, 1, 0, 0, 0]);
    expect(failures(await walk('&sort_by=consecutive_failures&sort_dir=asc'))).toEqual([
      0, 0, 0, 1, 1, 2, 2, 3, 3,
    ]);
    const byUrl = await walk('&sort_by=url&sort_dir=asc');
    expect(byUrl.map(({ url }) => (url as string).at(-1)).join('')).toBe('000111222');
    for (const sort of ['&sort_by=tenant_id', '&sort_by=status&sort_dir=asc']) {
      expect(new Set((await walk(sort)).map(({ subscription_id: id }) => id as string)).size).toBe(9);
    }
    const first = await list(`?tenant_id=${tenant.id}&limit=4&sort_by=url&sort_dir=asc`);
    expect((await tenant.remove(byUrl[3]?.subscription_id as string)).status).toBe(204);
    const rest = await list(`?tenant_id=${tenant.id}&sort_by=url&sort_dir=asc&cursor=${first.next_cursor}`);
    expect([...ids(first), ...ids(rest)]).toEqual(byUrl.map(({ subscription_id: id }) => id as string));
  });

  test('of a tenant is newest first, and listed likewise', async () => {
    const tenant = await subscriber();
    const rows: string[] = [];
    for (let count = 0; count < 5; count += 1) {
      const { subscription_id: id } = await tenant.made();
      await on.stored.redis.hset(storedWebhookKey(id), 'ca', 1_700_000_000_000 + count);
      rows.unshift(id as string);
    }
    const page = expectStatus(await tenant.list('?limit=3'), 200);
    expect(ids(page)).toEqual(rows.slice(0, 3));
    expect(ids(expectStatus(await tenant.list(`?limit=3&cursor=${page.next_cursor}`), 200))).toEqual(
      rows.slice(3),
    );
    expect(ids(expectStatus(await tenant.list('?status=PAUSED'), 200))).toEqual([]);
    expectRefusal(await tenant.list(`?status=ACTIVE&cursor=${page.next_cursor}`), 400, 'INVALID_REQUEST');
  });

  test('treats a large limit as the largest, and refuses unknown values', async () => {
    expectStatus(await on.holdfast.admin('GET', `${ADMIN}?limit=2000`), 200);
    expectStatus(await on.holdfast.admin('GET', `${ADMIN}?colour=red`), 200);
    for (const query of [
      '?limit=0',
      '?status=SLEEPING',
      '?event_type=foo',
      '?sort_by=name',
      '?sort_dir=up',
      '?cursor=x',
      `?search=${'x'.repeat(129)}`,
    ]) {
      expectRefusal(await on.holdfast.admin('GET', ADMIN + query), 400, 'INVALID_REQUEST');
    }
  });
});

describe('a closed tenant', () => {
  test("has its subscriptions disabled, each with one event under the closing's correlation, between budgets and keys", async () => {
    shows('close disables webhooks');
    const tenant = await subscriber();
    await on.holdfast.createBudget(tenant, '', 10);
    const active = await tenant.made({ name: 'a' });
    const paused = await tenant.made();
    const disabled = await tenant.made();
    expectStatus(await tenant.patch(paused.subscription_id, { status: 'PAUSED' }), 200);
    await on.stored.redis.hset(storedWebhookKey(disabled.subscription_id), 'st', 'DISABLED');
    expectStatus(
      await on.holdfast.admin('PATCH', `/v1/admin/tenants/${tenant.id}`, { status: 'CLOSED' }),
      200,
    );

    for (const { subscription_id: id } of [active, paused, disabled]) {
      expect(expectStatus(await on.holdfast.admin('GET', `${ADMIN}/${id}`), 200).status).toBe('DISABLED');
    }
    const events = (await on.stored.events(tenant.id))
      .map(({ fields }) => fields)
      .filter(({ ty }) => ty?.endsWith('_via_tenant_cascade') === true || ty === 'tenant.closed');
    const kinds = events.map(({ ty }) => ty);
    expect(kinds.filter((kind) => kind === 'webhook.disabled_via_tenant_cascade')).toHaveLength(2);
    expect(kinds.indexOf('webhook.disabled_via_tenant_cascade')).toBeGreaterThan(
      kinds.lastIndexOf('budget.closed_via_tenant_cascade'),
    );
    expect(kinds.at(-1)).toBe('tenant.closed');
    expect(new Set(events.map(({ co }) => co)).size).toBe(1);
    const cascaded = events.filter(({ ty }) => ty === 'webhook.disabled_via_tenant_cascade');
    expect(
      cascaded
        .map(
          ({ subscription_id: id, name, prior_status: before, new_status: after, cascade_reason: why }) => [
            id,
            name,
            before,
            after,
            why,
          ],
        )
        .sort(),
    ).toEqual(
      [
        [active.subscription_id, 'a', 'ACTIVE', 'DISABLED', 'tenant_closed'],
        [paused.subscription_id, undefined, 'PAUSED', 'DISABLED', 'tenant_closed'],
      ].sort(),
    );
    expect(
      (await auditEntriesOf(on.holdfast, active.subscription_id)).map(({ operation }) => operation),
    ).toContain('webhook.disabled_via_tenant_cascade');
  });

  test('is closed immediately: nothing of it is created, changed or deleted, and reads continue', async () => {
    shows('subscription after close');
    const tenant = await subscriber();
    const subscription = await tenant.made();
    const id = subscription.subscription_id as string;
    await on.stored.setTenantStatus(tenant.id, 'CLOSED');
    const answers = [
      await tenant.create(),
      await tenant.patch(id, { name: 'x' }),
      await tenant.patch(id, { status: 'ACTIVE' }),
      await tenant.remove(id),
      await create(`?tenant_id=${tenant.id}`),
      await on.holdfast.admin('PATCH', `${ADMIN}/${id}`, { status: 'PAUSED' }),
      await on.holdfast.admin('DELETE', `${ADMIN}/${id}`),
      await on.holdfast.admin('DELETE', `/v1/webhooks/${id}`),
    ];
    for (const answer of answers) {
      expectRefusal(answer, 409, 'TENANT_CLOSED');
    }
    expect(expectStatus(await on.holdfast.admin('GET', `${ADMIN}/${id}`), 200)).toEqual(subscription);
    expect(expectStatus(await tenant.list(), 200).subscriptions).toEqual([subscription]);
  });
});
