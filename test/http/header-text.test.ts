import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { expectRefusal, expectStatus, Holdfast, type Answer, type Json } from '../support/holdfast.js';

const ADMIN_KEY = 'schlüssel-der-betreiber-鍵';
const VIEWER_KEY = 'schlüssel-der-zuschauer-鍵';
const AGENT = 'zoë’s agent 🔎';
/** Node writes each character of a header as a byte. */
const bytesOf = (text: string): string => Buffer.from(text).toString('latin1');

let holdfast: Holdfast;

beforeAll(async () => {
  holdfast = await Holdfast.start({ ADMIN_API_KEY: ADMIN_KEY, VIEWER_API_KEY: VIEWER_KEY });
});
afterAll(() => holdfast.stop());

const from = (path: string, headers: Record<string, string>): Promise<Answer> =>
  holdfast.call('GET', path, {
    headers: Object.fromEntries(Object.entries(headers).map(([name, text]) => [name, bytesOf(text)])),
  });

test.each([ADMIN_KEY, VIEWER_KEY])('the operators’ key %s is compared as UTF-8', async (key) => {
  expect((await from('/v1/admin/tenants', { 'x-admin-api-key': key })).status).toBe(200);
  const other = key.replace('鍵', '鎚');
  expectRefusal(await from('/v1/admin/tenants', { 'x-admin-api-key': other }), 401, 'UNAUTHORIZED');
});

test('so is that of the metrics, as a header and as a bearer token', async () => {
  expect((await from('/metrics', { 'x-admin-api-key': ADMIN_KEY })).status).toBe(200);
  expect((await from('/metrics', { authorization: `Bearer ${ADMIN_KEY}` })).status).toBe(200);
  expect((await from('/metrics', { authorization: `Bearer ${ADMIN_KEY}x` })).status).toBe(401);
});

test('the user agent of an audit row is stored as UTF-8, and bytes that are none stay as they are', async () => {
  const stored = async (agent: string): Promise<unknown> => {
    const headers = { 'x-admin-api-key': bytesOf(ADMIN_KEY), 'user-agent': agent };
    const asked = await holdfast.call('GET', '/v1/admin/tenants/unknown', { headers });
    const id = asked.headers.get('x-request-id') ?? '';
    const { logs } = expectStatus(
      await from(`/v1/admin/audit/logs?request_id=${id}`, { 'x-admin-api-key': ADMIN_KEY }),
      200,
    ) as { logs: Json[] };
    return logs[0]?.user_agent as unknown;
  };
  expect(await stored(bytesOf(AGENT))).toBe(AGENT);
  expect(await stored('zo\u00eb')).toBe('zoë');
});
