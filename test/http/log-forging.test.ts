import { once } from 'node:events';
import { Writable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createLogger } from '../../src/telemetry/logger.js';
import { buildService, startService, type ServiceProcess } from '../support/built-service.js';
import { eventually } from '../support/eventually.js';
import { ADMIN_API_KEY, type Json } from '../support/holdfast.js';
import { exchange } from '../support/openapi-fuzz/index.js';
import { startStore, type Store } from '../support/store.js';
import { StoredRecords } from '../support/stored-records.js';

const LINE = '{"level":"info","service":"holdfast","msg":"FORGED"}';
/**
 * Everything that some reader takes for the end of a line, for a terminal command, or for a change of writing
 * direction.
 */
const FORGERIES = [
  '\r\n',
  '\n',
  '\r',
  '\v',
  '\f',
  '\u0085',
  '\u2028',
  '\u2029',
  '\0',
  '\u001b[2K\u001b[1A',
  '\u009b2K',
  '\u007f',
  '\u202e',
].map((ending) => `x${ending}${LINE}`);
const LINE_END = /\r\n|[\n\r\v\f\u0085\u2028\u2029]/;
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/;

/** The lines as the most lenient reader splits them. Each must be an object that the service logged. */
function objectsOf(output: string): Record<string, Json>[] {
  // Anything after the last line break is still being written.
  return output
    .slice(0, output.lastIndexOf('\n') + 1)
    .split(LINE_END)
    .filter((line) => line !== '')
    .map((line) => {
      expect(line).not.toMatch(UNPRINTABLE);
      const object = JSON.parse(line) as Record<string, Json>;
      expect({ line, service: object['service'], forged: object['msg'] === 'FORGED' }).toEqual({
        line,
        service: 'holdfast',
        forged: false,
      });
      return object;
    });
}

describe('the logger', () => {
  test.each(FORGERIES)(
    'forgery %# stays inside one line anywhere, and is returned unchanged',
    async (text) => {
      let output = '';
      const destination = new Writable({
        write(chunk: Buffer, _encoding, done) {
          output += chunk.toString();
          done();
        },
      });
      const logger = createLogger('trace', destination);
      const error = Object.assign(new Error(text), { code: text });
      logger.info(`said: ${text}`);
      logger.warn(
        { reason: text, deep: [{ text }], [text]: 1, url: `http://user:password@host/${text}` },
        'fields',
      );
      logger.error({ err: error }, text);
      destination.end();
      await once(destination, 'close');
      const [said, fields, failed] = objectsOf(output);
      expect(said).toMatchObject({ msg: `said: ${text}` });
      expect(fields).toMatchObject({
        reason: text,
        deep: [{ text }],
        [text]: 1,
        url: `http://[redacted]@host/${text}`,
      });
      expect(failed).toMatchObject({ msg: text, err: { message: text, code: text } });
      expect(output.split('\n')).toHaveLength(4);
    },
  );
});

describe('the built service', () => {
  let redis: Store;
  let stored: StoredRecords;
  let service: ServiceProcess & { readonly url: string };

  beforeAll(async () => {
    buildService();
    redis = await startStore();
    stored = new StoredRecords(redis.url);
    service = await startService({
      REDIS_URL: redis.url,
      ADMIN_API_KEY,
      HOLDFAST_ROLES: 'api',
      LOG_LEVEL: 'trace',
      WEBHOOK_SECRET_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64'),
    });
  }, 120_000);

  afterAll(async () => {
    service.child.kill('SIGKILL');
    await service.ended;
    await stored.close();
    await redis.stop();
  });

  async function admin(method: string, path: string, body?: unknown): Promise<Json> {
    const headers = {
      'x-admin-api-key': ADMIN_API_KEY,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    };
    const answer = await fetch(service.url + path, {
      method,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return answer.json();
  }

  test('headers, ids and reasons of clients forge no line', async () => {
    const port = Number(new URL(service.url).port);
    await admin('POST', '/v1/admin/tenants', { tenant_id: 'forged', name: 'forged' });
    for (const text of FORGERIES) {
      const bodies = [
        { idempotency_key: text, reason: text },
        { tenant_id: 'forged', name: text, description: text },
      ];
      const paths = [
        `/v1/reservations/${encodeURIComponent(text)}/release`,
        `/v1/admin/api-keys?reason=${encodeURIComponent(text)}`,
      ];
      for (const [index, path] of paths.entries()) {
        const body = JSON.stringify(bodies[index]);
        const names = [
          'User-Agent',
          'X-Request-Id',
          'X-Cycles-Trace-Id',
          'traceparent',
          'X-Forwarded-For',
          'X-Cycles-API-Key',
        ];
        const lines = [
          'Host: x',
          'Connection: close',
          `X-Admin-API-Key: ${ADMIN_API_KEY}`,
          'Content-Type: application/json',
          `Content-Length: ${Buffer.byteLength(body)}`,
        ];
        const head = [...lines, ...names.map((name) => `${name}: ${text}`)].join('\r\n');
        const answer = await exchange(port, Buffer.from(`POST ${path} HTTP/1.1\r\n${head}\r\n\r\n${body}`));
        expect(answer.status).toBeLessThan(500);
      }
    }
    expect(objectsOf(service.output.stdout).length).toBeGreaterThan(0);
    expect(service.output.stderr).toBe('');
  });

  test('a failure that quotes stored text is logged on one line, with the full quote', async () => {
    const { key_id, key_secret } = await admin('POST', '/v1/admin/api-keys', {
      tenant_id: 'forged',
      name: 'k',
    });
    for (const text of FORGERIES) {
      await stored.redis.hset(stored.apiKeyKey(key_id as string), 'permissions', text);
      const answer = await fetch(`${service.url}/v1/balances`, {
        headers: { 'x-cycles-api-key': key_secret as string },
      });
      expect(answer.status).toBe(500);
      const requestId = answer.headers.get('x-request-id');
      const line = await eventually('the failure is logged', () =>
        objectsOf(service.output.stdout).find((each) => each['request_id'] === requestId),
      );
      expect(line['err'].message).toContain(text.slice(0, 4));
    }
    expect(service.output.stderr).toBe('');
  });
});
