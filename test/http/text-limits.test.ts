import { describe, expect, test } from '@jest/globals';
import {
  expectRefusal,
  expectStatus,
  newKey,
  reserveBody,
  type Answer,
  type TestTenant,
} from '../support/holdfast.js';
import { mastersOf } from '../support/store.js';
import { useGovernance } from '../support/use-governance.js';

const LIMIT = 16_384;
const on = useGovernance();

/**
 * An object whose JSON has this many bytes, in texts of less than 4,096 characters each. Some characters may be
 * longer than a byte.
 */
function sized(bytes: number, letter = 'é'): Record<string, string> {
  const texts = Object.fromEntries(
    ['X-A', 'X-B', 'X-C', 'X-D', 'X-E'].map((name) => [name, letter.repeat(800)]),
  );
  const missing = bytes - Buffer.byteLength(JSON.stringify(texts));
  return Object.fromEntries(
    Object.entries(texts).map(([name, text], index) => [
      name,
      text + 'x'.repeat(Math.floor((missing + index) / 5)),
    ]),
  );
}

interface Subject {
  readonly tenant: TestTenant;
  readonly scope: string;
}

type Send = (subject: Subject, value: object) => Promise<Answer>;

const asTenant = ({ tenant }: Subject, method: string, path: string, body: object): Promise<Answer> =>
  on.holdfast.call(method, path, { key: tenant.key, body });
const admin = (method: string, path: string, body: object): Promise<Answer> =>
  on.holdfast.admin(method, path, body);
const tokens = { unit: 'TOKENS', amount: 1 };

async function subject(): Promise<Subject> {
  const tenant = await on.holdfast.fundedTenant(1000);
  return { tenant, scope: `tenant:${tenant.id}` };
}

async function hold({ tenant }: Subject): Promise<string> {
  return await on.holdfast.hold(tenant, 1);
}

function debit({ tenant }: Subject, more: object): object {
  const { estimate: _, ...body } = reserveBody(tenant, 0);
  return { ...body, actual: tokens, ...more };
}

const webhook = { url: 'https://93.184.215.14/hook', event_types: ['reservation.expired'] };

async function subscription({ tenant }: Subject): Promise<string> {
  return expectStatus(await admin('POST', `/v1/admin/webhooks?tenant_id=${tenant.id}`, webhook), 201)
    .subscription.subscription_id as string;
}

const REQUESTS: Record<string, readonly [field: string, send: Send]> = {
  'metadata of a reserve': [
    'metadata',
    (it, metadata) => asTenant(it, 'POST', '/v1/reservations', reserveBody(it.tenant, 1, { metadata })),
  ],
  'metadata of a dry run': [
    'metadata',
    (it, metadata) =>
      asTenant(it, 'POST', '/v1/reservations', reserveBody(it.tenant, 1, { metadata, dry_run: true })),
  ],
  'metadata of a commit': [
    'metadata',
    async (it, metadata) => on.holdfast.commit(it.tenant, await hold(it), 1, { metadata }),
  ],
  'custom metrics of a commit': [
    'metrics.custom',
    async (it, custom) => on.holdfast.commit(it.tenant, await hold(it), 1, { metrics: { custom } }),
  ],
  'metadata of an extension': [
    'metadata',
    async (it, metadata) =>
      on.holdfast.settle(it.tenant, 'extend', await hold(it), { extend_by_ms: 1, metadata }),
  ],
  'metadata of a direct debit': [
    'metadata',
    (it, metadata) => asTenant(it, 'POST', '/v1/events', debit(it, { metadata })),
  ],
  'custom metrics of a direct debit': [
    'metrics.custom',
    (it, custom) => asTenant(it, 'POST', '/v1/events', debit(it, { metrics: { custom } })),
  ],
  'metadata of a decision': [
    'metadata',
    (it, metadata) => asTenant(it, 'POST', '/v1/decide', reserveBody(it.tenant, 1, { metadata })),
  ],
  'metadata of a tenant': [
    'metadata',
    (_it, metadata) => admin('POST', '/v1/admin/tenants', { tenant_id: newKey(), name: 'a', metadata }),
  ],
  'metadata of a tenant that changes': [
    'metadata',
    (it, metadata) => admin('PATCH', `/v1/admin/tenants/${it.tenant.id}`, { metadata }),
  ],
  'metadata of an API key': [
    'metadata',
    (it, metadata) => admin('POST', '/v1/admin/api-keys', { tenant_id: it.tenant.id, name: 'a', metadata }),
  ],
  'metadata of a budget': [
    'metadata',
    (it, metadata) =>
      asTenant(it, 'POST', '/v1/admin/budgets', {
        scope: `${it.scope}/agent:${newKey()}`,
        unit: 'TOKENS',
        allocated: tokens,
        metadata,
      }),
  ],
  'metadata of a budget that changes': [
    'metadata',
    (it, metadata) => admin('PATCH', `/v1/admin/budgets?scope=${it.scope}&unit=TOKENS`, { metadata }),
  ],
  'metadata of a funding': [
    'metadata',
    (it, metadata) =>
      asTenant(it, 'POST', `/v1/admin/budgets/fund?scope=${it.scope}&unit=TOKENS`, {
        operation: 'CREDIT',
        amount: tokens,
        metadata,
      }),
  ],
  'metadata of a freeze': [
    'metadata',
    (it, metadata) => admin('POST', `/v1/admin/budgets/freeze?scope=${it.scope}&unit=TOKENS`, { metadata }),
  ],
  'metadata of a subscription': [
    'metadata',
    (it, metadata) => admin('POST', `/v1/admin/webhooks?tenant_id=${it.tenant.id}`, { ...webhook, metadata }),
  ],
  'metadata of a subscription that changes': [
    'metadata',
    async (it, metadata) => admin('PATCH', `/v1/admin/webhooks/${await subscription(it)}`, { metadata }),
  ],
  'headers of a subscription': [
    'headers',
    (it, value) => {
      const headers = sized(Buffer.byteLength(JSON.stringify(value)), 'h');
      return admin('POST', `/v1/admin/webhooks?tenant_id=${it.tenant.id}`, { ...webhook, headers });
    },
  ],
};

/** Everything that is stored, byte for byte, except rows of the audit and request logs, which refused requests leave. */
async function snapshot(): Promise<Record<string, unknown>> {
  const { redis } = on.stored;
  const stored = (await Promise.all(mastersOf(redis).map((master) => master.keys('{p*')))).flat();
  const keys = stored.filter((key) => !/^\{p..\}(audit|refused)/.test(key)).sort();
  return Object.fromEntries(
    await Promise.all(keys.map(async (key) => [key, (await redis.dumpBuffer(key))?.toString('base64')])),
  );
}

describe('a free text', () => {
  test.each(Object.keys(REQUESTS))(
    '%s: exactly the limit is accepted, one byte more is 400 with its size, and nothing is written',
    async (name) => {
      const [field, send] = REQUESTS[name] as (typeof REQUESTS)[string];
      const it = await subject();
      expect([200, 201]).toContain((await send(it, sized(LIMIT))).status);
      const holds =
        name.includes('commit') || name.includes('extension') || name.includes('subscription that changes');
      const before = await snapshot();
      const { message, details } = expectRefusal(await send(it, sized(LIMIT + 1)), 400, 'INVALID_REQUEST');
      expect(message).toContain(`${field} has ${LIMIT + 1} bytes as JSON; at most ${LIMIT} are allowed`);
      expect(details).toMatchObject({ field, size_bytes: LIMIT + 1, limit_bytes: LIMIT });
      if (!holds) {
        expect(await snapshot()).toEqual(before);
      }
    },
  );

  test('is measured as stored: with escapes and member names, without white space', async () => {
    const it = await subject();
    const text = '\u0001'.repeat((LIMIT - JSON.stringify({ a: '' }).length) / 6);
    const raw = (metadata: string): string =>
      JSON.stringify(reserveBody(it.tenant, 1)).replace(/\}$/, `,"metadata":${metadata}}`);
    const send = (metadata: string): Promise<Answer> =>
      on.holdfast.call('POST', '/v1/reservations', { key: it.tenant.key, raw: raw(metadata) });
    expectStatus(await send(`{${' '.repeat(LIMIT)}"a":${JSON.stringify(text)}}`), 200);
    expectRefusal(await send(`{"a":${JSON.stringify(`${text}\u0001`)}}`), 400, 'INVALID_REQUEST');
    // A number beyond 2^53 keeps all its digits.
    const digits = `{"n":[${Array.from({ length: 820 }, () => '9223372036854775807').join(',')}]}`;
    expect(expectRefusal(await send(digits), 400, 'INVALID_REQUEST').details.size_bytes).toBe(digits.length);
  });

  test('that nests too deeply is refused as such, whatever its size', async () => {
    const it = await subject();
    const deep = `${'{"a":'.repeat(100)}"${'x'.repeat(LIMIT)}"${'}'.repeat(100)}`;
    const raw = JSON.stringify(reserveBody(it.tenant, 1)).replace(/\}$/, `,"metadata":${deep}}`);
    const { message } = expectRefusal(
      await on.holdfast.call('POST', '/v1/reservations', { key: it.tenant.key, raw }),
      400,
      'INVALID_REQUEST',
    );
    expect(message).toContain('metadata must be a JSON object nested at most 32 levels deep');
  });

  test('headers that a change merges from stored and new ones are within the limit', async () => {
    const it = await subject();
    const id = await subscription(it);
    const patch = (headers: object): Promise<Answer> =>
      admin('PATCH', `/v1/admin/webhooks/${id}`, { headers });
    expectStatus(await patch(sized(LIMIT - 3000, 'h')), 200);
    const kept = {
      'X-A': '********',
      'X-B': '********',
      'X-C': '********',
      'X-D': '********',
      'X-E': '********',
    };
    expect(
      expectRefusal(await patch({ ...kept, 'X-F': 'b'.repeat(3000) }), 400, 'INVALID_REQUEST').details,
    ).toMatchObject({ field: 'headers', limit_bytes: LIMIT });
    expectStatus(await patch({ ...kept, 'X-F': 'b'.repeat(2900) }), 200);
  });
});

describe('names and lists', () => {
  const dimensions = (name: string): Record<string, unknown> => ({
    subject: { agent: 'a', dimensions: { [name]: 'v' } },
  });

  test('a dimension has a name of at most 256 characters, like its value', async () => {
    const it = await subject();
    const send = (name: string): Promise<Answer> =>
      on.holdfast.call('POST', '/v1/reservations', {
        key: it.tenant.key,
        body: reserveBody(it.tenant, 1, dimensions(name)),
      });
    expectStatus(await send('é'.repeat(256)), 200);
    expect(expectRefusal(await send('é'.repeat(257)), 400, 'INVALID_REQUEST').details.field).toBe(
      'subject.dimensions',
    );
  });

  test("an entry of a key's scope filter is no longer than a scope", async () => {
    const it = await subject();
    const long = Array.from({ length: 200 }, () => 'agent:a').join('/');
    const key = (entry: string): Promise<Answer> =>
      admin('POST', '/v1/admin/api-keys', { tenant_id: it.tenant.id, name: 'a', scope_filter: [entry] });
    expectStatus(await key(long.slice(0, 1023)), 201);
    expect(expectRefusal(await key(long), 400, 'INVALID_REQUEST').details.field).toBe('scope_filter');
  });

  test('the lists of the webhook security settings are bounded in bytes, too', async () => {
    const patterns = Array.from(
      { length: 100 },
      (_, index) => `https://h${index}.example/${'p'.repeat(700)}`,
    );
    const put = (allowed_url_patterns: string[]): Promise<Answer> =>
      admin('PUT', '/v1/admin/config/webhook-security', { allowed_url_patterns });
    expect(expectRefusal(await put(patterns), 400, 'INVALID_REQUEST').details).toMatchObject({
      field: 'allowed_url_patterns',
      limit_bytes: 65_536,
    });
    expectStatus(await put(patterns.slice(0, 80)), 200);
    expectStatus(await put([]), 200);
  });
});
