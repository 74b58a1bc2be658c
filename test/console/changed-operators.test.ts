import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { OperatorKeys } from '../../src/auth/operator-keys.js';
import { operatorKey } from '../../src/redis/keyspace.js';
import { ConsoleClient, LiveReader } from '../support/console-client.js';
import { eventually } from '../support/eventually.js';
import {
  type Answer,
  expectRefusal,
  expectStatus,
  Holdfast,
  type Json,
  newTenantId,
} from '../support/holdfast.js';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();
let other: Holdfast;
beforeAll(async () => {
  other = await Holdfast.start({ REDIS_URL: on.redis.url });
});
afterAll(() => other.stop());

let made = 0;
async function create(): Promise<{ name: string; key: string }> {
  const name = `viewer-${(made += 1)}`;
  const answer = await on.holdfast.admin('POST', '/ops/operators', { name, role: 'viewer' });
  return { name, key: expectStatus(answer, 201).key_secret as string };
}

test.each<[string, (name: string) => Promise<unknown>]>([
  ['was revoked', (name) => on.holdfast.admin('DELETE', `/ops/operators/${name}`)],
  ['was rotated', (name) => on.holdfast.admin('POST', `/ops/operators/${name}/rotate`, { overlap_ms: 0 })],
  [
    'has expired',
    (name) =>
      on.stored.redis.hset(
        operatorKey(on.holdfast.app.get(OperatorKeys, { strict: false }).tag, name),
        'expires_at',
        '1700000000000',
      ),
  ],
])(
  'the live stream of an operator whose key %s ends on both, and that of another goes on',
  async (_what, end) => {
    const [leaving, staying] = [await create(), await create()];
    const streams = await Promise.all(
      [leaving, leaving, staying].map(async ({ key }, index) => {
        const page = new ConsoleClient([on.holdfast, other][index % 2]?.url as string);
        await page.logIn(key);
        return new LiveReader(page.url, page.cookie);
      }),
    );
    await eventually('all follow', () => streams.every(({ events }) => events.length > 0));
    await end(leaving.name);
    const [one, two, third] = streams as [LiveReader, LiveReader, LiveReader];
    await Promise.all([one.ended, two.ended]);
    expect([one, two].map(({ events }) => events.at(-1))).toEqual(
      Array.from({ length: 2 }, () => ({ name: 'ended', data: 'session' })),
    );
    const before = third.events.length;
    await eventually('the other goes on', () => third.events.length > before);
    await third.close();
  },
);

test('the live stream of an operator ends when it is confined to tenants', async () => {
  const { name, key } = await create();
  const page = new ConsoleClient(other.url);
  await page.logIn(key);
  const stream = new LiveReader(page.url, page.cookie);
  await eventually('it follows', () => stream.events.length > 0);
  expectStatus(await on.holdfast.admin('PATCH', `/ops/operators/${name}`, { tenants: ['acme'] }), 200);
  await stream.ended;
  expect(stream.events.at(-1)).toEqual({ name: 'ended', data: 'session' });
  expect((await page.send('GET', '/console/api/stream')).status).toBe(403);
});

const as = (key: string, method: string, path: string, body?: unknown): Promise<Answer> =>
  on.holdfast.call(method, path, { body, headers: { 'x-admin-api-key': key } });

async function lastUpdate(): Promise<Json> {
  const path = '/v1/admin/audit/logs?operation=updateOperator&limit=1';
  return expectStatus(await on.holdfast.admin('GET', path), 200).logs[0];
}

test('an operator has another role at once when that is changed, and so have its sessions', async () => {
  const { name, key } = await create();
  const page = new ConsoleClient(on.holdfast.url);
  await page.logIn(key);
  const make = (): Promise<Answer> =>
    as(key, 'POST', '/v1/admin/tenants', { tenant_id: newTenantId(), name: 'Acme' });
  expectRefusal(await make(), 403, 'INSUFFICIENT_PERMISSIONS');
  const change = (role: string): Promise<Answer> =>
    on.holdfast.admin('PATCH', `/ops/operators/${name}`, { role });
  expect(expectStatus(await change('operator'), 200)).toMatchObject({ name, role: 'operator' });
  expectStatus(await make(), 201);
  expect((await page.send('GET', '/console/api/session')).body.session.role).toBe('operator');
  expect(await lastUpdate()).toMatchObject({
    resource_id: name,
    metadata: { previous_role: 'viewer', role: 'operator' },
  });
  expectStatus(await change('metrics'), 200);
  expectRefusal(await as(key, 'GET', '/v1/admin/tenants'), 403, 'INSUFFICIENT_PERMISSIONS');
  expectRefusal(await change('owner'), 400, 'INVALID_REQUEST');
  expectRefusal(
    await on.holdfast.admin('PATCH', `/ops/operators/nobody`, { role: 'viewer' }),
    404,
    'NOT_FOUND',
  );
  expectStatus(await on.holdfast.admin('DELETE', `/ops/operators/${name}`), 200);
  expectRefusal(await change('viewer'), 409, 'KEY_REVOKED');
});
