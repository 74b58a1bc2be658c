import { describe, expect, test } from '@jest/globals';
import { eventLogKey, webhookKey } from '../../src/redis/keyspace.js';
import { shows } from '../compatibility/shows.js';
import { expectRefusal, expectStatus, type Answer, type Json } from '../support/holdfast.js';
import { PUBLIC_URL, storedWebhookKey, Subscriber } from '../support/subscriber.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();
const subscriber = (): Promise<Subscriber> => Subscriber.make(on.holdfast, on.stored);
const MASK = '********';
const record = (id: string): Promise<Record<string, string>> => on.stored.redis.hgetall(storedWebhookKey(id));

/** The tenant's webhook events in brief: type, status before and after, what changed. */
const told = async (tenant: Subscriber): Promise<unknown[]> =>
  (await tenant.events()).map(
    ({ ty, previous_status: before, new_status: after, changed_fields: changed }) => [
      ty,
      before,
      after,
      JSON.parse(changed ?? ''),
    ],
  );

describe('a subscription', () => {
  test('is created with all its settings, shows its secret once, and emits an event', async () => {
    shows('signing secret once', 'getWebhookSubscription', 'createTenantWebhook', 'getTenantWebhook');
    const tenant = await subscriber();
    const settings = {
      name: 'Pager',
      description: 'on call',
      url: PUBLIC_URL,
      event_types: ['reservation.expired', 'budget.exhausted'],
      event_categories: ['tenant'],
      scope_filter: `tenant:${tenant.id}/workspace:prod/*`,
      thresholds: { budget_utilization: [0.5], denial_rate_threshold: 0.2 },
      retry_policy: { max_retries: 2, initial_delay_ms: 100, backoff_multiplier: 1.5, max_delay_ms: 2000 },
      disable_after_failures: 3,
      metadata: { a: { b: [1] } },
    };
    const { subscription, signing_secret: secret } = expectStatus(
      await tenant.create({ ...settings, headers: { Authorization: 'Bearer t0k' } }),
      201,
    );
    expect(subscription).toEqual({
      ...settings,
      subscription_id: expect.stringMatching(/^whsub_[0-9a-f]{2}[0-9A-Za-z]{16}$/),
      tenant_id: tenant.id,
      headers: { Authorization: MASK },
      status: 'ACTIVE',
      consecutive_failures: 0,
      created_at: expect.stringMatching(/Z$/),
      updated_at: subscription.created_at,
    });
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    expect(expectStatus(await tenant.get(subscription.subscription_id), 200)).toEqual(subscription);
    expect(expectStatus(await tenant.list(), 200)).toEqual({
      subscriptions: [subscription],
      has_more: false,
    });
    expect(await tenant.events()).toEqual([
      expect.objectContaining({
        ty: 'webhook.created',
        subscription_id: subscription.subscription_id,
        tenant_id: tenant.id,
        new_status: 'ACTIVE',
        changed_fields: '[]',
        co: `webhook_create:${subscription.subscription_id}`,
        ac: 'api_key',
      }),
    ]);
  });

  test("has the protocol's defaults for omitted settings", async () => {
    const subscription = await (await subscriber()).made();
    expect(subscription).toMatchObject({
      event_categories: [],
      disable_after_failures: 10,
      retry_policy: { max_retries: 5, initial_delay_ms: 1000, backoff_multiplier: 2, max_delay_ms: 60_000 },
    });
    for (const name of [
      'name',
      'description',
      'scope_filter',
      'thresholds',
      'headers',
      'metadata',
      'last_triggered_at',
    ]) {
      expect(subscription).not.toHaveProperty(name);
    }
  });

  test('stores secret and headers encrypted, equal ones as different bytes', async () => {
    shows('signing secret once');
    const tenant = await subscriber();
    const more = { signing_secret: 'my-own-secret', headers: { 'X-Token': 'token-value' } };
    const ids: string[] = [];
    for (const answer of [await tenant.create(more), await tenant.create(more)]) {
      const { subscription, signing_secret: secret } = expectStatus(answer, 201);
      expect(secret).toBe('my-own-secret');
      ids.push(subscription.subscription_id as string);
    }
    const [one, two] = await Promise.all(ids.map(record));
    for (const field of ['se', 'hd']) {
      expect(one?.[field]).toMatch(/^enc2:[A-Za-z0-9+/]+=*$/);
      expect(one?.[field]).not.toBe(two?.[field]);
    }
    expect(JSON.stringify([one, two])).not.toMatch(/my-own-secret|token-value/);
  });

  test.each<[string, Record<string, unknown>]>([
    ['no event types', { event_types: [] }],
    ['an unknown event type', { event_types: ['reservation.lost'] }],
    ['an unknown category', { event_categories: ['weather'] }],
    ['a member that does not exist', { color: 'red' }],
    ['a status', { status: 'PAUSED' }],
    ["a header that is Holdfast's own", { headers: { 'X-Cycles-Signature': 'x' } }],
    ['a header of Standard Webhooks', { headers: { 'Webhook-Id': 'x' } }],
    ['the host', { headers: { host: 'x' } }],
    ['a length', { headers: { 'Content-Length': '1' } }],
    ['a line break in a header', { headers: { 'X-A': 'a\r\nX-B: b' } }],
    ["a line break in a header's name", { headers: { 'X-A\r\nX-B': 'b' } }],
    ['one header twice', { headers: { 'X-A': '1', 'x-a': '2' } }],
    ['a masked header', { headers: { 'X-A': MASK } }],
    ['a secret that only looks like base64', { signing_secret: 'whsec_###' }],
    ['an empty secret', { signing_secret: '' }],
    ['a scope filter with other characters', { scope_filter: 'tenant: acme' }],
    ['a threshold above 1', { thresholds: { budget_utilization: [1.1] } }],
    ['too many retries', { retry_policy: { max_retries: 11 } }],
    ['no failures at all', { disable_after_failures: 0 }],
    ['null', { name: null }],
  ])('with %s is refused', async (_what, more) => {
    expectRefusal(await (await subscriber()).create(more), 400, 'INVALID_REQUEST');
  });
});

describe('a PATCH', () => {
  test('changes what it names, replaces lists and objects, and reports only the members that differ', async () => {
    shows('subscription events', 'updateTenantWebhook');
    const tenant = await subscriber();
    const before = await tenant.made({
      name: 'a',
      thresholds: { budget_utilization: [0.1] },
      metadata: { k: 1 },
    });
    const changes = {
      name: 'b',
      event_types: ['budget.funded'],
      thresholds: { burn_rate_multiplier: 2 },
      metadata: { k: 1 },
      disable_after_failures: 10,
    };
    const after = expectStatus(await tenant.patch(before.subscription_id, changes), 200);
    expect(after).toEqual({ ...before, ...changes, updated_at: after.updated_at });
    expect(await told(tenant)).toEqual([
      ['webhook.created', undefined, 'ACTIVE', []],
      ['webhook.updated', 'ACTIVE', 'ACTIVE', ['name', 'thresholds', 'event_types']],
    ]);
    const [, event] = await tenant.events();
    expect(event?.['co']).toBe(`webhook_update:${before.subscription_id}:${event?.['rq']}`);
  });

  test('that changes nothing emits nothing and changes no byte', async () => {
    shows('subscription events');
    const tenant = await subscriber();
    const { subscription, signing_secret: secret } = expectStatus(
      await tenant.create({ name: 'a', headers: { 'X-A': '1' }, scope_filter: 'tenant:X/*' }),
      201,
    );
    const before = await record(subscription.subscription_id);
    const { name, url, event_types, event_categories, retry_policy, disable_after_failures } = subscription;
    const same = {
      name,
      url,
      event_types,
      event_categories,
      retry_policy,
      disable_after_failures,
      scope_filter: 'tenant:x/*',
      description: null,
    };
    expect(expectStatus(await tenant.patch(subscription.subscription_id, same), 200)).toEqual(subscription);
    expectStatus(
      await tenant.patch(subscription.subscription_id, {
        signing_secret: secret,
        headers: { 'X-A': MASK },
        status: 'ACTIVE',
      }),
      200,
    );
    expectStatus(await tenant.patch(subscription.subscription_id, {}), 200);
    expect(await record(subscription.subscription_id)).toEqual(before);
    expect(await told(tenant)).toEqual([['webhook.created', undefined, 'ACTIVE', []]]);
  });

  test('pauses and resumes, and its event names what else it changed', async () => {
    shows('subscription events');
    const tenant = await subscriber();
    const { subscription_id: id } = await tenant.made();
    expect(expectStatus(await tenant.patch(id, { status: 'PAUSED', name: 'n' }), 200).status).toBe('PAUSED');
    expect(expectStatus(await tenant.patch(id, { name: 'm' }), 200).status).toBe('PAUSED');
    expect(expectStatus(await tenant.patch(id, { status: 'ACTIVE' }), 200).status).toBe('ACTIVE');
    expectRefusal(await tenant.patch(id, { status: 'DISABLED' }), 400, 'INVALID_REQUEST');
    expect((await told(tenant)).slice(1)).toEqual([
      ['webhook.paused', 'ACTIVE', 'PAUSED', ['name']],
      ['webhook.updated', 'PAUSED', 'PAUSED', ['name']],
      ['webhook.resumed', 'PAUSED', 'ACTIVE', []],
    ]);
  });

  test('to ACTIVE resets the failures, even of one that was disabled', async () => {
    shows('resetting failures');
    const tenant = await subscriber();
    const { subscription_id: id } = await tenant.made();
    await on.stored.redis.hset(storedWebhookKey(id), { st: 'DISABLED', cf: '10' });
    expect(expectStatus(await tenant.patch(id, { name: 'still disabled' }), 200)).toMatchObject({
      status: 'DISABLED',
      consecutive_failures: 10,
    });
    expect(expectStatus(await tenant.patch(id, { status: 'ACTIVE' }), 200)).toMatchObject({
      status: 'ACTIVE',
      consecutive_failures: 0,
    });
    expect((await told(tenant)).at(-1)).toEqual(['webhook.resumed', 'DISABLED', 'ACTIVE', []]);
    await on.stored.redis.hset(storedWebhookKey(id), { cf: '4' });
    expect(expectStatus(await tenant.patch(id, { status: 'ACTIVE' }), 200).consecutive_failures).toBe(0);
    expect(await told(tenant)).toHaveLength(3);
  });

  test('with an empty scope filter clears it, as a create with one has none', async () => {
    const tenant = await subscriber();
    const { subscription_id: id } = await tenant.made({ scope_filter: `tenant:${tenant.id}/*` });
    expect(expectStatus(await tenant.patch(id, { scope_filter: '' }), 200)).not.toHaveProperty(
      'scope_filter',
    );
    expect((await record(id))['sf']).toBeUndefined();
    const { subscription_id: without } = await tenant.made({ scope_filter: '' });
    expect((await record(without))['sf']).toBeUndefined();
  });

  test('with null removes name, description, scope filter and metadata, and nothing else can be null', async () => {
    const tenant = await subscriber();
    const { subscription_id: id } = await tenant.made({
      name: 'a',
      description: 'b',
      scope_filter: `tenant:${tenant.id}`,
      metadata: { c: 1 },
    });
    const cleared = expectStatus(
      await tenant.patch(id, { name: null, description: null, scope_filter: null, metadata: null }),
      200,
    );
    for (const name of ['name', 'description', 'scope_filter', 'metadata']) {
      expect(cleared).not.toHaveProperty(name);
    }
    for (const name of [
      'url',
      'event_types',
      'headers',
      'retry_policy',
      'thresholds',
      'disable_after_failures',
      'status',
      'signing_secret',
    ]) {
      expectRefusal(await tenant.patch(id, { [name]: null }), 400, 'INVALID_REQUEST');
    }
  });

  test('keeps a header that is sent back masked, drops one that is missing, and refuses a mask without a stored value', async () => {
    shows('masked headers');
    const tenant = await subscriber();
    const { subscription_id: id } = await tenant.made({
      headers: { Authorization: 'Bearer a', 'X-Old': '1' },
    });
    const before = await record(id);
    expect(
      expectStatus(await tenant.patch(id, { headers: { Authorization: MASK, 'X-New': '2' } }), 200).headers,
    ).toEqual({ Authorization: MASK, 'X-New': MASK });
    expectRefusal(await tenant.patch(id, { headers: { 'X-Old': MASK } }), 400, 'INVALID_REQUEST');
    expect((await record(id))['hd']).not.toBe(before['hd']);
    expect(expectStatus(await tenant.patch(id, { headers: {} }), 200)).not.toHaveProperty('headers');
    expect((await told(tenant)).slice(1).map((row) => (row as unknown[])[3])).toEqual([
      ['headers'],
      ['headers'],
    ]);
  });

  test('with a new secret keeps the former one for a day, and never shows either', async () => {
    shows('secret rotation');
    const tenant = await subscriber();
    const { subscription_id: id } = await tenant.made();
    const before = await record(id);
    const answer = await tenant.patch(id, { signing_secret: 'a-new-secret' });
    expect(expectStatus(answer, 200)).not.toHaveProperty('signing_secret');
    expect(answer.text).not.toContain('a-new-secret');
    const after = await record(id);
    expect(after['sp']).toBe(before['se']);
    expect(after['se']).not.toBe(before['se']);
    expect(Number(after['su']) - Number(after['ua'])).toBe(86_400_000);
    expect((await told(tenant)).at(-1)).toEqual(['webhook.updated', 'ACTIVE', 'ACTIVE', ['signing_secret']]);
  });

  test('with different secrets at once are all applied, one after the other', async () => {
    const tenant = await subscriber();
    const { subscription_id: id } = await tenant.made();
    const answers = await Promise.all(
      ['secret-one', 'secret-two', 'secret-three'].map((signing_secret) =>
        tenant.patch(id, { signing_secret }),
      ),
    );
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect((await told(tenant)).slice(1)).toEqual(
      Array(3).fill(['webhook.updated', 'ACTIVE', 'ACTIVE', ['signing_secret']]),
    );
  });

  test('leaves a subscription with a selector of types, categories, or both, but never without any', async () => {
    shows('selector required');
    const tenant = await subscriber();
    const { subscription_id: id } = await tenant.made();
    expectRefusal(await tenant.patch(id, { event_types: [] }), 400, 'INVALID_REQUEST');
    expect(
      expectStatus(await tenant.patch(id, { event_types: [], event_categories: ['budget'] }), 200),
    ).toMatchObject({ event_types: [], event_categories: ['budget'] });
    expectRefusal(await tenant.patch(id, { event_categories: [] }), 400, 'INVALID_REQUEST');
    expect(expectStatus(await tenant.get(id), 200)).toMatchObject({
      event_types: [],
      event_categories: ['budget'],
    });
  });
});

describe('what a tenant may see', () => {
  const ADMIN_ONLY: Record<string, unknown>[] = [
    { event_types: ['api_key.created'] },
    { event_types: ['policy.updated', 'budget.created'] },
    { event_types: ['webhook.deleted'] },
    { event_types: ['system.high_latency'] },
    { event_categories: ['api_key'] },
    { event_categories: ['budget', 'system'] },
    { event_categories: ['policy'] },
    { event_categories: ['webhook'] },
  ];

  test("is not the operators' own: such selectors are refused at creation and later", async () => {
    shows('no operator events');
    const tenant = await subscriber();
    const { subscription_id: id } = await tenant.made();
    for (const selectors of ADMIN_ONLY) {
      expectRefusal(await tenant.create(selectors), 400, 'INVALID_REQUEST');
      expectRefusal(await tenant.patch(id, selectors), 400, 'INVALID_REQUEST');
    }
    expectStatus(
      await tenant.create({
        event_types: ['tenant.updated'],
        event_categories: ['budget', 'reservation', 'tenant'],
      }),
      201,
    );
  });

  test.each([
    ['an admin-only type', { et: 'api_key.created' }],
    ['an admin-only category', { ec: 'system' }],
    ['no selector at all', { et: '', ec: '' }],
  ])(
    'a stored subscription with %s can be paused, and neither resumed nor changed',
    async (_what, fields) => {
      shows('no operator events');
      const tenant = await subscriber();
      const { subscription_id: id } = await tenant.made();
      await on.stored.redis.hset(storedWebhookKey(id), fields);
      expect(expectStatus(await tenant.patch(id, { status: 'PAUSED' }), 200).status).toBe('PAUSED');
      expectRefusal(await tenant.patch(id, { status: 'ACTIVE' }), 400, 'INVALID_REQUEST');
      expectRefusal(await tenant.patch(id, { name: 'x' }), 400, 'INVALID_REQUEST');
      expectRefusal(
        await on.holdfast.admin('PATCH', `/v1/admin/webhooks/${id}`, { status: 'ACTIVE' }),
        400,
        'INVALID_REQUEST',
      );
      expect((await record(id))['st']).toBe('PAUSED');
      expectStatus(
        await tenant.patch(id, { status: 'ACTIVE', event_types: ['budget.funded'], event_categories: [] }),
        200,
      );
    },
  );
});

describe('the end of a subscription', () => {
  test('is permanent, and its event has the previous status', async () => {
    shows('subscription events', 'deleteTenantWebhook');
    const tenant = await subscriber();
    const { subscription_id: id } = await tenant.made();
    expectStatus(await tenant.patch(id, { status: 'PAUSED' }), 200);
    const answer = await tenant.remove(id);
    expect([answer.status, answer.text]).toEqual([204, '']);
    for (const gone of [
      await tenant.get(id),
      await tenant.patch(id, { name: 'x' }),
      await tenant.remove(id),
    ]) {
      expectRefusal(gone, 404, 'WEBHOOK_NOT_FOUND');
    }
    expect(expectStatus(await tenant.list(), 200).subscriptions).toEqual([]);
    expect((await told(tenant)).at(-1)).toEqual(['webhook.deleted', 'PAUSED', undefined, []]);
    expect((await tenant.events()).at(-1)?.['co']).toBe(`webhook_delete:${id}`);
  });
});

describe('who may', () => {
  test("only the tenant itself: another tenant's subscription is not found, whatever the request", async () => {
    shows('foreign subscription');
    const [one, two] = [await subscriber(), await subscriber()];
    const { subscription_id: id } = await one.made();
    for (const foreign of [id, 'whsub_00aaaaaaaaaaaaaaaa', 'nonsense']) {
      for (const answer of [
        await two.get(foreign),
        await two.patch(foreign, { name: 'x' }),
        await two.remove(foreign),
      ]) {
        expectRefusal(answer, 404, 'WEBHOOK_NOT_FOUND');
      }
    }
    expect(expectStatus(await two.list(), 200).subscriptions).toEqual([]);
    expect(expectStatus(await one.get(id), 200)).not.toHaveProperty('name');
  });

  test("a key with the permission, and for operators' own operations none", async () => {
    shows('webhook permissions', 'listTenantWebhooks');
    const tenant = await subscriber();
    const { subscription_id: id } = await tenant.made();
    const reader = await tenant.confined({ permissions: ['webhooks:read'] });
    expectStatus(await reader.get(id), 200);
    for (const answer of [
      await reader.create(),
      await reader.patch(id, { name: 'x' }),
      await reader.remove(id),
    ]) {
      expectRefusal(answer, 403, 'INSUFFICIENT_PERMISSIONS');
    }
    const writer = await tenant.confined({ permissions: ['webhooks:write'] });
    expectRefusal(await writer.list(), 403, 'INSUFFICIENT_PERMISSIONS');
    expectStatus(await writer.patch(id, { name: 'x' }), 200);
    const plain = await tenant.confined({});
    expectRefusal(await plain.list(), 403, 'INSUFFICIENT_PERMISSIONS');
    expectRefusal(
      await on.holdfast.call('GET', '/v1/admin/webhooks', { key: tenant.key }),
      401,
      'UNAUTHORIZED',
    );
    expectRefusal(
      await on.holdfast.admin('POST', '/v1/webhooks', { url: PUBLIC_URL, event_types: ['tenant.updated'] }),
      401,
      'UNAUTHORIZED',
    );
  });

  test('a confined key manages subscriptions only inside its scopes', async () => {
    const tenant = await subscriber();
    const everything = await tenant.made();
    const confined = await tenant.confined({
      permissions: ['webhooks:read', 'webhooks:write'],
      scope_filter: ['workspace:eng'],
    });
    for (const scopeFilter of [
      undefined,
      '',
      `tenant:${tenant.id}/*`,
      `tenant:${tenant.id}/workspace:sales/*`,
      `tenant:${tenant.id}/workspace:e*`,
      '*',
    ]) {
      expectRefusal(
        await confined.create(scopeFilter === undefined ? {} : { scope_filter: scopeFilter }),
        403,
        'INSUFFICIENT_PERMISSIONS',
      );
    }
    const inside = await confined.made({ scope_filter: `tenant:${tenant.id}/workspace:eng/*` });
    expect(expectStatus(await confined.list(), 200).subscriptions).toEqual([inside]);
    for (const cleared of [null, '']) {
      expectRefusal(
        await confined.patch(inside.subscription_id, { scope_filter: cleared }),
        403,
        'INSUFFICIENT_PERMISSIONS',
      );
    }
    for (const answer of [
      await confined.get(everything.subscription_id),
      await confined.patch(everything.subscription_id, { name: 'x' }),
      await confined.remove(everything.subscription_id),
    ]) {
      expectRefusal(answer, 403, 'INSUFFICIENT_PERMISSIONS');
    }
    expectStatus(await confined.remove(inside.subscription_id), 204);
  });
});

describe('records and logs that cannot be trusted', () => {
  test('if the event log accepts nothing, nothing is created, changed or deleted', async () => {
    const tenant = await subscriber();
    const { subscription_id: id } = await tenant.made();
    const before = await record(id);
    const log = eventLogKey(on.stored.tagOf(tenant.id));
    await on.stored.redis.rename(log, `${log}-away`);
    await on.stored.redis.set(log, 'no stream');
    const answers: Answer[] = [
      await tenant.create(),
      await tenant.patch(id, { name: 'x' }),
      await tenant.remove(id),
    ];
    await on.stored.redis.rename(`${log}-away`, log);
    expect(answers.map(({ status }) => status)).toEqual([500, 500, 500]);
    expect(await record(id)).toEqual(before);
    expect(expectStatus(await tenant.list(), 200).subscriptions).toHaveLength(1);
  });

  test('a record that Holdfast did not write is 500, and is not changed', async () => {
    const tenant = await subscriber();
    const { subscription_id: id } = await tenant.made();
    await on.stored.redis.hset(storedWebhookKey(id), 'st', 'RESTING');
    for (const answer of [
      await tenant.get(id),
      await tenant.patch(id, { name: 'x' }),
      await tenant.remove(id),
    ] as Json[]) {
      expectRefusal(answer, 500, 'INTERNAL_ERROR');
    }
    expect((await record(id))['nm']).toBeUndefined();
    await on.stored.redis.del(webhookKey(on.stored.tagOf(tenant.id), id));
  });
});
