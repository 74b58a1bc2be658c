import { describe, expect, test } from '@jest/globals';
import {
  auditLogKey,
  bulkRowsKey,
  eventLogKey,
  tenantKey,
  webhookChangesKey,
  webhookIndexKey,
  webhookKey,
  webhookMarksKey,
  webhookRevisionKey,
} from '../../src/redis/keyspace.js';
import type { Reply } from '../../src/redis/scripts.js';
import { shows } from '../compatibility/shows.js';
import { randomText, TRACE, type LedgerClient } from '../support/ledger-client.js';
import { snapshot } from '../support/ledger-state.js';
import { commandsOf } from '../support/script-commands.js';
import { useLedger } from '../support/use-ledger.js';

const newLedger = useLedger();
const ORIGIN = ['api_key', 'key_1', 'req_webhook', TRACE] as const;
const DAY_MS = 86_400_000;

interface Made {
  readonly types?: string;
  readonly categories?: string;
  readonly owner?: string;
  readonly sets?: Readonly<Record<string, string>>;
}

async function owned(): Promise<LedgerClient> {
  const ledger = await newLedger();
  await ledger.makeTenant();
  return ledger;
}

async function create(
  ledger: LedgerClient,
  { types = 'reservation.expired', categories = '', owner = ledger.tenant, sets = {} }: Made = {},
): Promise<{ id: string; reply: Reply }> {
  const { tag } = ledger;
  const id = `whsub_${tag.slice(2, 4)}${randomText(16)}`;
  const fields = { ur: 'https://a.example', se: 'sealed-1', rp: '5,1000,2,60000', df: '10', ...sets };
  const reply = await ledger.scripts.run(
    'create_webhook',
    [webhookKey(tag, id), webhookIndexKey(tag, owner), tenantKey(tag, owner)],
    [owner, id, types, categories, 'createTenantWebhook', ...ORIGIN, 0, ...Object.entries(fields).flat()],
  );
  return { id, reply };
}

async function made(ledger: LedgerClient, more: Made = {}): Promise<string> {
  const { id, reply } = await create(ledger, more);
  expect(reply[0]).toBe('CREATED');
  return id;
}

function update(
  ledger: LedgerClient,
  id: string,
  sets: Readonly<Record<string, string>>,
  {
    status = '',
    tenant = ledger.tenant,
    secret = 'sealed-1',
    headers = '',
  }: { status?: string; tenant?: string; secret?: string; headers?: string } = {},
): Promise<Reply> {
  return ledger.scripts.run(
    'update_webhook',
    [webhookKey(ledger.tag, id)],
    [
      tenant,
      id,
      status,
      secret,
      headers,
      DAY_MS,
      'updateTenantWebhook',
      ...ORIGIN,
      ...Object.entries(sets).flat(),
    ],
  );
}

const remove = (ledger: LedgerClient, id: string, tenant = ledger.tenant): Promise<Reply> =>
  ledger.scripts.run(
    'delete_webhook',
    [webhookKey(ledger.tag, id)],
    [tenant, id, 'deleteTenantWebhook', ...ORIGIN],
  );
const bulk = (ledger: LedgerClient, id: string, action: string, requestId = 'req_bulk'): Promise<Reply> =>
  ledger.scripts.run(
    'bulk_webhook',
    [webhookKey(ledger.tag, id)],
    [id, action, 60_000, `webhook_bulk_action:${action}:${requestId}`, 'admin', '', requestId, TRACE],
  );
const stored = (ledger: LedgerClient, id: string): Promise<Record<string, string>> =>
  ledger.redis.hgetall(webhookKey(ledger.tag, id));
const utilizations = (ledger: LedgerClient): Promise<string | null> =>
  ledger.redis.hget(tenantKey(ledger.tag, ledger.tenant), 'th');
const revision = async (ledger: LedgerClient): Promise<number> =>
  Number(await ledger.redis.get(webhookRevisionKey(ledger.tag)));

const entriesOf = async (ledger: LedgerClient, key: string, name: string): Promise<string[]> =>
  (await ledger.redis.xrange(key, '-', '+')).map(([, flat]) => flat[flat.indexOf(name) + 1] as string);
const told = (ledger: LedgerClient): Promise<string[]> => entriesOf(ledger, eventLogKey(ledger.tag), 'ty');
const audited = (ledger: LedgerClient): Promise<string[]> => entriesOf(ledger, auditLogKey(ledger.tag), 'op');

describe('a subscription', () => {
  test('is created, changed and deleted, each time with one event, one audit row and a new revision', async () => {
    shows(
      'createWebhookSubscription',
      'updateWebhookSubscription',
      'deleteWebhookSubscription',
      'createTenantWebhook',
      'updateTenantWebhook',
    );
    const ledger = await owned();
    const id = await made(ledger);
    const revisions = [await revision(ledger)];
    expect((await update(ledger, id, { nm: 'name' }))[0]).toBe('UPDATED');
    revisions.push(await revision(ledger));
    expect((await update(ledger, id, {}, { status: 'PAUSED' }))[0]).toBe('UPDATED');
    expect((await update(ledger, id, {}, { status: 'ACTIVE' }))[0]).toBe('UPDATED');
    revisions.push(await revision(ledger));
    expect(await remove(ledger, id)).toEqual(['DELETED']);
    revisions.push(await revision(ledger));
    expect(await told(ledger)).toEqual([
      'webhook.created',
      'webhook.updated',
      'webhook.paused',
      'webhook.resumed',
      'webhook.deleted',
    ]);
    expect(await audited(ledger)).toEqual([
      'createTenantWebhook',
      ...Array<string>(3).fill('updateTenantWebhook'),
      'deleteTenantWebhook',
    ]);
    expect(revisions).toEqual([1, 2, 4, 5]);
    expect(
      await ledger.redis.exists(webhookKey(ledger.tag, id), webhookIndexKey(ledger.tag, ledger.tenant)),
    ).toBe(0);
  });

  test.each<[string, Made, Reply]>([
    ['without any selector', { types: '' }, ['NO_SELECTOR']],
    [
      "with an operators' type",
      { types: 'budget.created,api_key.created' },
      ['ADMIN_ONLY', 'api_key.created'],
    ],
    ["with an operators' category", { categories: 'budget,system' }, ['ADMIN_ONLY', 'system']],
    ['with a custom type', { types: 'custom.anything' }, ['ADMIN_ONLY', 'custom.anything']],
    [
      "with a category that only starts like a tenant's",
      { categories: 'budgets' },
      ['ADMIN_ONLY', 'budgets'],
    ],
    ['of a tenant that does not exist', { owner: 'nobody' }, ['TENANT_NOT_FOUND']],
  ])('%s is refused, and nothing is written', async (_what, more, reply) => {
    shows('selector required');
    const ledger = await owned();
    const before = await snapshot(ledger);
    expect((await create(ledger, more)).reply).toEqual(reply);
    expect(await snapshot(ledger)).toEqual(before);
  });

  test('of operators accepts every selector, but not none', async () => {
    const ledger = await newLedger();
    expect(
      (await create(ledger, { owner: '__system__', types: 'api_key.created', categories: 'system' }))
        .reply[0],
    ).toBe('CREATED');
    expect((await create(ledger, { owner: '__system__', types: '' })).reply).toEqual(['NO_SELECTOR']);
  });

  test('is one of at most a thousand per owner', async () => {
    const ledger = await owned();
    const index = webhookIndexKey(ledger.tag, ledger.tenant);
    await ledger.redis.zadd(
      index,
      ...Array.from({ length: 1000 }, (_, count) => [0, `whsub_${count}`]).flat(),
    );
    expect((await create(ledger)).reply).toEqual(['TOO_MANY', '1000']);
  });
});

describe('an update', () => {
  test.each<[string, Readonly<Record<string, string>>, { status?: string; tenant?: string }, Reply]>([
    ["of another tenant's", { nm: 'x' }, { tenant: 'somebody-else' }, ['NOT_FOUND']],
    ['that leaves no selector', { et: '' }, {}, ['NO_SELECTOR']],
    ["that adds an operators' category", { ec: 'policy' }, {}, ['ADMIN_ONLY', 'policy']],
    ['that adds one while it is paused', { ec: 'policy' }, { status: 'PAUSED' }, ['ADMIN_ONLY', 'policy']],
  ])('%s is refused, and nothing is written', async (_what, sets, more, reply) => {
    shows('selector required');
    const ledger = await owned();
    const id = await made(ledger);
    const before = await snapshot(ledger);
    expect(await update(ledger, id, sets, more)).toEqual(reply);
    expect(await snapshot(ledger)).toEqual(before);
  });

  test('of a field that another change has sealed meanwhile is STALE, and one of another field is not', async () => {
    const ledger = await owned();
    const id = await made(ledger, { sets: { hd: 'headers-1', hn: 'A' } });
    expect(await update(ledger, id, { se: 'sealed-2' }, { secret: 'sealed-0' })).toEqual(['STALE']);
    expect(await update(ledger, id, { hd: 'headers-2', hn: 'A' }, { headers: 'headers-0' })).toEqual([
      'STALE',
    ]);
    expect((await update(ledger, id, { nm: 'x' }, { secret: 'sealed-0', headers: 'headers-0' }))[0]).toBe(
      'UPDATED',
    );
    expect((await update(ledger, id, { se: 'sealed-2', hd: 'headers-2' }, { headers: 'headers-1' }))[0]).toBe(
      'UPDATED',
    );
    expect(await stored(ledger, id)).toMatchObject({ se: 'sealed-2', sp: 'sealed-1', hd: 'headers-2' });
  });

  test('does not change what deliveries count', async () => {
    const ledger = await owned();
    const id = await made(ledger);
    await ledger.redis.hset(webhookKey(ledger.tag, id), { cf: '3', lt: '5', ls: '6', lf: '7', ld: 'd' });
    expect((await update(ledger, id, { ur: 'https://b.example' }))[0]).toBe('UPDATED');
    expect(await stored(ledger, id)).toMatchObject({
      ur: 'https://b.example',
      cf: '3',
      lt: '5',
      ls: '6',
      lf: '7',
      ld: 'd',
    });
  });
});

describe('the utilization thresholds that a tenant watches', () => {
  const THRESHOLDS = { types: 'budget.threshold_crossed', sets: { th: '{}', tu: '0.5,0.95' } };

  test('are stored with it, sorted and in addition to the usual ones, while an active subscription selects them', async () => {
    shows('utilization thresholds');
    const ledger = await owned();
    expect(await utilizations(ledger)).toBeNull();
    await made(ledger);
    expect(await utilizations(ledger)).toBeNull();
    const first = await made(ledger, THRESHOLDS);
    expect(await utilizations(ledger)).toBe('0.5,0.8,0.95,1');
    const second = await made(ledger, {
      types: 'tenant.updated',
      categories: 'budget',
      sets: { th: '{}', tu: '0.25,0.5' },
    });
    expect(await utilizations(ledger)).toBe('0.25,0.5,0.8,0.95,1');
    await update(ledger, first, {}, { status: 'PAUSED' });
    expect(await utilizations(ledger)).toBe('0.25,0.5,0.8,0.95,1');
    await update(ledger, second, { ec: '' });
    expect(await utilizations(ledger)).toBeNull();
    await update(ledger, first, {}, { status: 'ACTIVE' });
    expect(await utilizations(ledger)).toBe('0.5,0.8,0.95,1');
    await update(ledger, first, { th: '', tu: '' });
    expect(await utilizations(ledger)).toBeNull();
  });

  test('are counted only from changes, however many subscriptions there are', async () => {
    const ledger = await owned();
    for (let count = 0; count < 5; count += 1) {
      await made(ledger, THRESHOLDS);
    }
    const last = await made(ledger, { types: 'budget.threshold_crossed', sets: { tu: '0.3' } });
    const commands = await commandsOf(ledger.redis, ledger.tag, () => update(ledger, last, { tu: '0.4' }));
    expect(await utilizations(ledger)).toBe('0.4,0.5,0.8,0.95,1');
    expect(new Set(commands.map(([, key]) => key).filter((key) => key?.includes('w:whsub_')))).toEqual(
      new Set([webhookKey(ledger.tag, last)]),
    );
  });

  test('have at most fifty different values, and more are refused whenever a subscription would need them', async () => {
    const ledger = await owned();
    const values = (from: number, count: number): string =>
      Array.from({ length: count }, (_, index) => `0.${from + index}`).join(',');
    for (const from of [100, 120]) {
      await made(ledger, { types: 'budget.threshold_crossed', sets: { tu: values(from, 20) } });
    }
    const nine = await made(ledger, { types: 'budget.threshold_crossed', sets: { tu: values(140, 9) } });
    const paused = await made(ledger, { sets: { tu: values(160, 2) } });
    const before = await snapshot(ledger);
    expect((await create(ledger, { categories: 'budget', sets: { tu: values(150, 2) } })).reply).toEqual([
      'TOO_MANY_MARKS',
      '50',
    ]);
    expect(await update(ledger, nine, { tu: values(140, 11) })).toEqual(['TOO_MANY_MARKS', '50']);
    expect(await update(ledger, paused, { et: 'budget.threshold_crossed' })).toEqual([
      'TOO_MANY_MARKS',
      '50',
    ]);
    expect(await snapshot(ledger)).toEqual(before);
    await update(ledger, paused, { et: 'budget.threshold_crossed' }, { status: 'PAUSED' });
    expect(await bulk(ledger, paused, 'RESUME')).toEqual(['TOO_MANY_MARKS', '50']);
    expect((await update(ledger, nine, { tu: values(140, 10) }))[0]).toBe('UPDATED');
    expect((await update(ledger, nine, { tu: values(140, 3) }))[0]).toBe('UPDATED');
    expect(await bulk(ledger, paused, 'RESUME', 'req_again')).toEqual(['SUCCEEDED']);
    expect((await utilizations(ledger))?.split(',')).toHaveLength(20 + 20 + 3 + 2 + 3);
  });

  test('are removed with the subscription', async () => {
    const ledger = await owned();
    const [one, two] = [await made(ledger, THRESHOLDS), await made(ledger, THRESHOLDS)];
    await remove(ledger, one);
    expect(await utilizations(ledger)).toBe('0.5,0.8,0.95,1');
    await bulk(ledger, two, 'DELETE');
    expect(await utilizations(ledger)).toBeNull();
  });
});

describe('a row of a bulk action', () => {
  test('is changed once, however often it is requested, and remembered only for a while', async () => {
    shows('bulkActionWebhooks');
    const ledger = await owned();
    const id = await made(ledger);
    expect(await bulk(ledger, id, 'PAUSE')).toEqual(['SUCCEEDED']);
    expect(await bulk(ledger, id, 'PAUSE')).toEqual(['SUCCEEDED']);
    expect(await bulk(ledger, id, 'PAUSE', 'req_another')).toEqual(['SKIPPED', 'ALREADY_IN_TARGET_STATE']);
    expect(await bulk(ledger, id, 'DELETE', 'req_third')).toEqual(['SUCCEEDED']);
    expect(await bulk(ledger, id, 'DELETE', 'req_third')).toEqual(['SUCCEEDED']);
    expect(await bulk(ledger, id, 'DELETE', 'req_fourth')).toEqual(['SKIPPED', 'ALREADY_DELETED']);
    expect(await bulk(ledger, id, 'PAUSE', 'req_fifth')).toEqual(['NOT_FOUND']);
    expect(await told(ledger)).toEqual(['webhook.created', 'webhook.paused', 'webhook.deleted']);
    expect(await ledger.redis.pttl(bulkRowsKey(ledger.tag, 'req_bulk'))).toBeGreaterThan(0);
  });

  test('that may not change is refused with the reason, and nothing is written', async () => {
    const ledger = await owned();
    const id = await made(ledger);
    const key = webhookKey(ledger.tag, id);
    const refuses = async (fields: Record<string, string>, action: string, reply: Reply): Promise<void> => {
      await ledger.redis.hset(key, fields);
      const before = await snapshot(ledger);
      expect(await bulk(ledger, id, action)).toEqual(reply);
      expect(await snapshot(ledger)).toEqual(before);
    };
    await refuses({ st: 'DISABLED' }, 'RESUME', ['INVALID_TRANSITION', 'DISABLED']);
    await refuses({ st: 'DISABLED' }, 'PAUSE', ['SKIPPED', 'ALREADY_IN_TARGET_STATE']);
    await refuses({ st: 'ACTIVE' }, 'RESUME', ['SKIPPED', 'ALREADY_IN_TARGET_STATE']);
    await refuses({ st: 'PAUSED', et: 'api_key.created' }, 'RESUME', ['ADMIN_ONLY', 'api_key.created']);
    await refuses({ st: 'PAUSED', et: '', ec: '' }, 'RESUME', ['NO_SELECTOR']);
    await ledger.redis.hset(tenantKey(ledger.tag, ledger.tenant), 'status', 'CLOSED');
    await refuses({ et: 'budget.created' }, 'RESUME', ['TENANT_CLOSED']);
  });
});

describe('a closed tenant', () => {
  test('refuses every change of its subscriptions', async () => {
    shows('subscription after close');
    const ledger = await owned();
    const id = await made(ledger);
    await ledger.redis.hset(tenantKey(ledger.tag, ledger.tenant), 'status', 'CLOSED');
    const before = await snapshot(ledger);
    const replies = [
      (await create(ledger)).reply,
      await update(ledger, id, { nm: 'x' }),
      await update(ledger, id, {}, { status: 'PAUSED', tenant: '' }),
      await remove(ledger, id),
      await remove(ledger, id, ''),
      await bulk(ledger, id, 'PAUSE'),
    ];
    expect(replies).toEqual(Array(6).fill(['TENANT_CLOSED']));
    expect(await snapshot(ledger)).toEqual(before);
  });
});

describe('a key of another type next to the record', () => {
  test.each([
    ['the revision', (ledger: LedgerClient) => webhookRevisionKey(ledger.tag)],
    ["the owner's index", (ledger: LedgerClient) => webhookIndexKey(ledger.tag, ledger.tenant)],
    ["the owner's changes", (ledger: LedgerClient) => webhookChangesKey(ledger.tag, ledger.tenant)],
    [
      "the owner's counted utilizations",
      (ledger: LedgerClient) => webhookMarksKey(ledger.tag, ledger.tenant),
    ],
  ])('%s ends every script before it writes', async (_what, keyOf) => {
    const ledger = await owned();
    const id = await made(ledger);
    await ledger.redis.del(keyOf(ledger));
    await ledger.redis.rpush(keyOf(ledger), 'damaged');
    const before = await snapshot(ledger);
    const outcome = (): Promise<Reply> =>
      ledger.scripts.run(
        'record_delivery_outcome',
        [webhookKey(ledger.tag, id)],
        [id, 'failure', 'dlv_1', TRACE, 'req_1', '500'],
      );
    for (const attempt of [
      () => create(ledger),
      () => update(ledger, id, { nm: 'x' }),
      () => remove(ledger, id),
      () => bulk(ledger, id, 'PAUSE'),
      outcome,
    ]) {
      await expect(attempt()).rejects.toThrow('WRONGTYPE');
    }
    expect(await snapshot(ledger)).toEqual(before);
  });
});

describe("a subscription's record with values that no script writes", () => {
  test('does not block other subscriptions', async () => {
    const ledger = await owned();
    const [damaged, noHash, sound] = [
      await made(ledger),
      await made(ledger),
      await made(ledger, { types: 'budget.threshold_crossed', sets: { tu: '0.5' } }),
    ];
    await ledger.redis.hdel(webhookKey(ledger.tag, damaged), 'et', 'ec');
    await ledger.redis.hset(webhookKey(ledger.tag, damaged), 'tu', '0.3');
    await ledger.redis.del(webhookKey(ledger.tag, noHash));
    await ledger.redis.set(webhookKey(ledger.tag, noHash), 'damaged');
    expect((await update(ledger, sound, { tu: '0.6' }))[0]).toBe('UPDATED');
    expect(await utilizations(ledger)).toBe('0.6,0.8,0.95,1');
    expect(
      await ledger.scripts.run('webhook_targets', [webhookRevisionKey(ledger.tag)], [ledger.tenant, '', '']),
    ).toEqual(expect.arrayContaining([damaged, sound]));
  });

  test.each([
    ['an unknown status', 'st', 'RESTING'],
    ['no owner', 'tn', null],
    ['no selectors', 'et', null],
  ])('with %s ends every script before it writes', async (_what, field, value) => {
    const ledger = await owned();
    const id = await made(ledger);
    const key = webhookKey(ledger.tag, id);
    await (value === null ? ledger.redis.hdel(key, field) : ledger.redis.hset(key, field, value));
    const before = await snapshot(ledger);
    for (const attempt of [
      () => update(ledger, id, { nm: 'x' }, { tenant: '' }),
      () => remove(ledger, id, ''),
      () => bulk(ledger, id, 'DELETE'),
    ]) {
      await expect(attempt()).rejects.toThrow('corrupt webhook record');
    }
    expect(await snapshot(ledger)).toEqual(before);
  });
});
