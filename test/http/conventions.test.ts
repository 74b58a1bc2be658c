import 'reflect-metadata';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { shows } from '../compatibility/shows.js';
import { request } from 'undici';
import { startProbeApp, type ProbeApp } from './probe-app.js';

interface ErrorBody {
  error: string;
  message: string;
  request_id: string;
  trace_id: string;
  details?: Record<string, unknown>;
}

let probe: ProbeApp;

beforeAll(async () => {
  probe = await startProbeApp();
});

afterAll(() => probe.close());

type Options = NonNullable<Parameters<typeof request>[1]>;

async function call(
  path: string,
  options: Options = {},
): Promise<{ status: number; headers: Record<string, string>; text: string }> {
  const response = await request(probe.url + path, options);
  return {
    status: response.statusCode,
    headers: response.headers as Record<string, string>,
    text: await response.body.text(),
  };
}

function post(body: string | Buffer, type = 'application/json'): Options {
  return { method: 'POST', body, headers: { 'content-type': type } };
}

async function expectRefusal(
  path: string,
  options: Options,
  status: number,
  error: string,
  message: RegExp,
): Promise<ErrorBody> {
  const answer = await call(path, options);
  const body = JSON.parse(answer.text) as ErrorBody;
  expect({ status: answer.status, error: body.error }).toEqual({ status, error });
  expect(body.message).toMatch(message);
  expect(answer.headers['content-type']).toBe('application/json; charset=utf-8');
  expect(answer.headers['x-request-id']).toBe(body.request_id);
  expect(answer.headers['x-cycles-trace-id']).toBe(body.trace_id);
  expect(body.request_id).toMatch(/^req_[0-9a-f]{24}$/);
  expect(body.trace_id).toMatch(/^[0-9a-f]{32}$/);
  expect(
    Object.keys(body).filter(
      (key) => !['error', 'message', 'request_id', 'trace_id', 'details'].includes(key),
    ),
  ).toEqual([]);
  return body;
}

/** Writes raw bytes, for requests that no HTTP client would send. */
async function raw(text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(probe.port, '127.0.0.1', () => socket.write(text));
    let answer = '';
    socket.on('data', (chunk) => (answer += chunk.toString()));
    socket.on('close', () => resolve(answer));
    socket.on('error', reject);
  });
}

function expectRawRefusal(answer: string, status: number, message: RegExp): void {
  const [head = '', body = ''] = answer.split('\r\n\r\n');
  const parsed = JSON.parse(body) as ErrorBody;
  expect(head).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
  expect(parsed.message).toMatch(message);
  expect(head.toLowerCase()).toContain(`x-request-id: ${parsed.request_id}`);
  expect(head.toLowerCase()).toContain(`x-cycles-trace-id: ${parsed.trace_id}`);
}

describe('correlation', () => {
  const A = 'a'.repeat(32);
  const B = 'b'.repeat(32);
  const SPAN = '00f067aa0ba902b7';

  async function traceOf(headers: Record<string, string>): Promise<Record<string, string>> {
    const answer = await call('/probe/trace', { headers });
    const trace = JSON.parse(answer.text) as Record<string, string>;
    expect(answer.headers['x-cycles-trace-id']).toBe(trace['traceId']);
    expect(answer.headers['x-request-id']).toBe(trace['requestId']);
    return trace;
  }

  test.each([
    ['a traceparent alone is used, with its flags', { traceparent: `00-${A}-${SPAN}-00` }, A, '00'],
    ['a trace id header alone is used', { 'x-cycles-trace-id': B }, B, '01'],
    [
      'a traceparent wins over the trace id header',
      { traceparent: `00-${A}-${SPAN}-03`, 'x-cycles-trace-id': B },
      A,
      '03',
    ],
    [
      'a malformed traceparent is ignored',
      { traceparent: `00-${A}-${SPAN}`, 'x-cycles-trace-id': B },
      B,
      '01',
    ],
    [
      'another traceparent version is ignored',
      { traceparent: `01-${A}-${SPAN}-01`, 'x-cycles-trace-id': B },
      B,
      '01',
    ],
    [
      'an all-zero trace id in traceparent is ignored',
      { traceparent: `00-${'0'.repeat(32)}-${SPAN}-01`, 'x-cycles-trace-id': B },
      B,
      '01',
    ],
    [
      'an all-zero span id is ignored',
      { traceparent: `00-${A}-${'0'.repeat(16)}-01`, 'x-cycles-trace-id': B },
      B,
      '01',
    ],
    [
      'an upper-case traceparent is ignored',
      { traceparent: `00-${A.toUpperCase()}-${SPAN}-01`, 'x-cycles-trace-id': B },
      B,
      '01',
    ],
  ])('%s', async (_name, headers, traceId, traceFlags) => {
    shows('trace id source');
    expect(await traceOf(headers as Record<string, string>)).toMatchObject({ traceId, traceFlags });
  });

  test.each([
    ['nothing', {}],
    ['an all-zero trace id', { 'x-cycles-trace-id': '0'.repeat(32) }],
    ['an upper-case trace id', { 'x-cycles-trace-id': A.toUpperCase() }],
    ['a short trace id', { 'x-cycles-trace-id': 'abc' }],
  ])('with %s a new trace id is generated', async (_name, headers) => {
    shows('malformed correlation');
    const first = await traceOf(headers);
    const second = await traceOf(headers);
    expect(first['traceId']).toMatch(/^[0-9a-f]{32}$/);
    expect(first['traceId']).not.toBe(second['traceId']);
    expect(first['traceFlags']).toBe('01');
  });

  test('an inbound request id is not trusted', async () => {
    expect((await traceOf({ 'x-request-id': 'mine' }))['requestId']).toMatch(/^req_[0-9a-f]{24}$/);
  });
});

describe('paths and methods', () => {
  test('an unknown path is 404 in the error form', async () => {
    shows('key set');
    await expectRefusal('/v1/nothing/here', {}, 404, 'NOT_FOUND', /nothing at this path/);
    await expectRefusal('/', {}, 404, 'NOT_FOUND', /nothing/);
    await expectRefusal('/probe/items/1/', {}, 404, 'NOT_FOUND', /nothing/);
  });

  test.each(['POST', 'PUT', 'PATCH', 'OPTIONS', 'TRACE', 'PROPFIND', 'LOCK', 'QUERY'])(
    '%s on a path with other methods is 405 with Allow',
    async (method) => {
      await expectRefusal(
        '/probe/items/1',
        { method: method },
        405,
        'INVALID_REQUEST',
        /allowed: DELETE, GET, HEAD/,
      );
      const answer = await call('/probe/items/1', { method: method as 'POST' });
      expect(answer.headers['allow']).toBe('DELETE, GET, HEAD');
    },
  );

  test('a body on a wrong method does not hide the 405', async () => {
    await expectRefusal('/probe/items/1', post('{nonsense'), 405, 'INVALID_REQUEST', /allowed/);
  });

  test('bad percent encoding is 400', async () => {
    await expectRefusal('/probe/items/%ZZ', {}, 400, 'INVALID_REQUEST', /percent encoding/);
    await expectRefusal('/%C0%80', {}, 400, 'INVALID_REQUEST', /percent encoding/);
  });

  test('an endless path parameter is 400', async () => {
    await expectRefusal(`/probe/items/${'x'.repeat(300)}`, {}, 400, 'INVALID_REQUEST', /too long/);
  });

  test('what is not HTTP gets a response in the error form', async () => {
    shows('trace id header');
    expectRawRefusal(
      await raw('GET /health/live HTTP/1.1\r\nConnection: close\r\n\r\n'),
      400,
      /needs a Host header/,
    );
    expectRawRefusal(await raw('FOO / HTTP/1.1\r\nHost: x\r\n\r\n'), 400, /not valid HTTP/);
    expectRawRefusal(
      await raw(`GET / HTTP/1.1\r\nHost: x\r\nX-Big: ${'x'.repeat(20_000)}\r\n\r\n`),
      431,
      /headers/,
    );
  });
});

test.each([
  ['200', 'GET /health/live', 'Host: x\r\n'],
  ['200', 'GET /docs', 'Host: x\r\n'],
  ['200', 'GET /docs/start.js', 'Host: x\r\n'],
  ['200', 'GET /openapi.json', 'Host: x\r\n'],
  ['200', 'GET /metrics', 'Host: x\r\nX-Admin-API-Key: admin-key-for-tests-only\r\n'],
  ['401', 'GET /metrics', 'Host: x\r\n'],
  ['404', 'GET /nothing', 'Host: x\r\n'],
  ['405', 'PUT /health/live', 'Host: x\r\n'],
  ['400', 'GET /%ZZ', 'Host: x\r\n'],
  ['400', 'GET /health/live', ''],
  ['400', 'NO SUCH', 'Host: x\r\n'],
  ['400', 'CONNECT x:1', 'Host: x\r\n'],
])('%s for %s tells browsers not to guess its type', async (status, request, headers) => {
  const [head = ''] = (await raw(`${request} HTTP/1.1\r\n${headers}Connection: close\r\n\r\n`)).split(
    '\r\n\r\n',
  );
  expect(head).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
  expect(
    head
      .toLowerCase()
      .split('\r\n')
      .filter((line) => line === 'x-content-type-options: nosniff'),
  ).toHaveLength(1);
});

describe('the Host header', () => {
  const ask = (lines: string, version = '1.1', path = '/health/live'): Promise<string> =>
    raw(`GET ${path} HTTP/${version}\r\n${lines}Connection: close\r\n\r\n`);

  test.each([
    'x',
    'X.example:80',
    '127.0.0.1:8080',
    '[::1]',
    '[::1]:8080',
    'a_b',
    '',
    'x:',
    'a%20b',
    '[v1.fe:x]',
  ])('may be %p', async (host) => {
    expect(await ask(`Host: ${host}\r\n`)).toMatch(/^HTTP\/1\.1 200 /);
  });

  test('may be missing in HTTP/1.0 only', async () => {
    expect(await ask('', '1.0')).toMatch(/ 200 OK/);
    expectRawRefusal(await ask(''), 400, /needs a Host header/);
  });

  test.each([
    'a b',
    'a/b',
    'http://a',
    'a@b',
    'a:b',
    'a:80:80',
    '::1',
    '[::1',
    '[1.2.3.4]',
    '[::g]',
    'a%2',
    'ä',
    'a?b',
    'a#b',
    '"a"',
  ])('must not be %p', async (host) => {
    expectRawRefusal(await ask(`Host: ${host}\r\n`), 400, /Host header is not a valid host/);
  });

  test.each(['Host: x\r\nHost: x\r\n', 'Host: x\r\nX-A: 1\r\nhOST: y\r\n', 'Host:\r\nHost: x\r\n'])(
    'must not occur twice: %j',
    async (lines) => {
      for (const path of ['/health/live', '/v1/reservations', '/nothing']) {
        expectRawRefusal(await ask(lines, '1.1', path), 400, /more than one Host header/);
        expectRawRefusal(await ask(lines, '1.0', path), 400, /more than one Host header/);
      }
    },
  );
});

describe('bodies', () => {
  const echo = '/probe/echo';

  test.each([
    ['no JSON', '{"key":', /not valid JSON/],
    ['an array', '[]', /must be a JSON object/],
    ['a text', '"x"', /must be a JSON object/],
    ['null', 'null', /JSON object/],
    ['an unknown field', '{"key":"a","foo":1}', /unknown field 'foo'; allowed: key, amount, metadata/],
    ['a prototype', '{"key":"a","__proto__":{}}', /__proto__/],
    ['a prototype deep inside', '{"key":"a","metadata":{"x":[{"__proto__":1}]}}', /__proto__/],
    ['a prototype in disguise', '{"key":"a","metadata":{"\\u005f_proto__":1}}', /__proto__/],
    [
      'a prototype beside a long number',
      '{"key":"a","amount":9223372036854775807,"metadata":{"__proto__":1}}',
      /__proto__/,
    ],
    ['a constructor', '{"key":"a","constructor":{}}', /unknown field 'constructor'/],
    ['half a surrogate pair', '{"key":"\\ud800"}', /surrogate/],
    ['a number beyond the range of doubles', '{"key":"a","amount":1e400}', /too large/],
    ['a million digits', `{"key":"a","amount":${'9'.repeat(1000)}}`, /more than 40 digits/],
    [
      'an amount beyond int64',
      '{"key":"a","amount":9223372036854775808}',
      /amount must be an integer from 0 to 9223372036854775807/,
    ],
    ['a negative amount', '{"key":"a","amount":-1}', /amount must be an integer from 0/],
    ['a fractional amount', '{"key":"a","amount":1.5}', /amount must be an integer from 0/],
    [
      'an amount that rounds to an integer',
      '{"key":"a","amount":1.00000000000000000001}',
      /amount must be an integer from 0 to 9223372036854775807, written without a fraction or an exponent/,
    ],
    [
      'an amount that rounds up to 1',
      '{"key":"a","amount":0.99999999999999999999}',
      /amount must be an integer.* without a fraction or an exponent/,
    ],
    [
      'an amount that vanishes',
      '{"key":"a","amount":1e-400}',
      /amount must be an integer.* without a fraction or an exponent/,
    ],
    [
      'an amount with a fraction of zero',
      '{"key":"a","amount" : 1.0}',
      /amount must be an integer.* without a fraction or an exponent/,
    ],
    [
      'an amount with an exponent',
      '{"key":"a","amount":\n1E3}',
      /amount must be an integer.* without a fraction or an exponent/,
    ],
    [
      'an amount that is rounded beyond 2^53',
      '{"key":"a","amount":9007199254740993.5}',
      /amount must be an integer/,
    ],
    ['an amount as a string', '{"key":"a","amount":"1"}', /amount must be an integer from 0/],
    [
      'an amount written with an exponent beyond 2^53',
      '{"key":"a","amount":1e18}',
      /amount must be an integer from 0/,
    ],
    ['a null', '{"key":"a","amount":null}', /amount must not be null/],
    ['a member twice', '{"key":"a","key":"a"}', /has the member "key" twice/],
    [
      'a member twice beside a long number',
      '{"key":"a","amount":9007199254740993,"amount":1}',
      /"amount" twice/,
    ],
    ['a member twice, once in escapes', '{"key":"a","\\u006bey":"b"}', /has the member "key" twice/],
    [
      'a member twice deep inside',
      '{"key":"a","metadata":{"x":[{},{"y":1,"z":[],"y":2}]}}',
      /has the member "y" twice/,
    ],
  ])('%s is refused', async (_name, body, message) => {
    await expectRefusal(echo, post(body), 400, 'INVALID_REQUEST', message);
  });

  test('a number that is not an integer of the protocol may be written in any way, and -0 is 0', async () => {
    const body = '{"key":"1.0, 2e3","amount":-0,"metadata":{"share":1.0,"list":[1e3,2.5E-1],"text":"v 1.0"}}';
    expect(JSON.parse((await call(echo, post(body))).text)).toEqual({
      key: '1.0, 2e3',
      amount: 0,
      metadata: { share: 1, list: [1000, 0.25], text: 'v 1.0' },
    });
  });

  test('the field is named in the details', async () => {
    const body = await expectRefusal(
      echo,
      post('{"key":""}'),
      400,
      'INVALID_REQUEST',
      /key must be a string of 1 to 256 characters/,
    );
    expect(body.details).toMatchObject({ field: 'key' });
  });

  test('bytes that are not UTF-8 are refused', async () => {
    await expectRefusal(
      echo,
      post(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d])),
      400,
      'INVALID_REQUEST',
      /UTF-8/,
    );
  });

  test('numbers with many digits after the point are read', async () => {
    const body =
      '{"key":"a","metadata":{"share":3.3333333333333335,"pi":3.14159265358979323846264338327950288}}';
    expect(JSON.parse((await call(echo, post(body))).text)).toEqual({
      key: 'a',
      metadata: { share: 3.3333333333333335, pi: 3.141592653589793 },
    });
  });

  test.each(['gzip', 'br', 'gzip, identity', 'GZIP'])('a body encoded as %s is 415', async (encoding) => {
    for (const type of ['application/json', 'text/plain']) {
      const request = post('{"key":"a"}', type);
      const headers = { ...(request.headers as Record<string, string>), 'content-encoding': encoding };
      const answer = await call(echo, { ...request, headers });
      expect(answer.headers['accept-encoding']).toBe('identity');
      await expectRefusal(
        echo,
        { ...request, headers },
        415,
        'INVALID_REQUEST',
        new RegExp(`Content-Encoding "${encoding.toLowerCase()}" is not supported`),
      );
    }
  });

  test('identity is no encoding, and without a body there is nothing to encode', async () => {
    const request = post('{"key":"a"}');
    const headers = { ...(request.headers as Record<string, string>), 'content-encoding': 'Identity' };
    expect(await call(echo, { ...request, headers })).toMatchObject({ status: 200 });
    await expectRefusal(
      echo,
      { method: 'POST', headers: { 'content-encoding': 'gzip' } },
      400,
      'INVALID_REQUEST',
      /needs a JSON object/,
    );
  });

  test('another content type is refused as 400, since the protocol has no 415', async () => {
    await expectRefusal(
      echo,
      post('key=a', 'application/x-www-form-urlencoded'),
      400,
      'INVALID_REQUEST',
      /Content-Type must be application\/json/,
    );
    await expectRefusal(
      echo,
      post('{}', 'nonsense'),
      400,
      'INVALID_REQUEST',
      /Content-Type must be application\/json/,
    );
    await expectRefusal(
      echo,
      { method: 'POST', body: Buffer.from('{}') },
      400,
      'INVALID_REQUEST',
      /Content-Type/,
    );
  });

  test('a missing body is refused by the operation', async () => {
    await expectRefusal(echo, { method: 'POST' }, 400, 'INVALID_REQUEST', /needs a JSON object/);
    await expectRefusal(echo, post(''), 400, 'INVALID_REQUEST', /needs a JSON object/);
  });

  test('a content type without a body is accepted where none is needed', async () => {
    for (const method of ['GET', 'DELETE'] as const) {
      const answer = await call('/probe/items/7', {
        method,
        headers: { 'content-type': 'application/json' },
      });
      expect(answer.status).toBe(200);
    }
  });

  test('a body over the limit is 413, declared or not', async () => {
    const large = JSON.stringify({ key: 'a', metadata: { text: 'x'.repeat(262_144) } });
    await expectRefusal(echo, post(large), 413, 'INVALID_REQUEST', /larger than 262144 bytes/);
    const chunks = (async function* () {
      await Promise.resolve();
      yield Buffer.from(large.slice(0, 2500));
      yield Buffer.from(large.slice(2500));
    })();
    const streamed: Options = {
      method: 'POST',
      body: chunks as never,
      headers: { 'content-type': 'application/json' },
    };
    await expectRefusal(echo, streamed, 413, 'INVALID_REQUEST', /larger than 262144 bytes/);
  });

  test('objects that Nest serialises keep their digits too', async () => {
    expect((await call('/probe/items/7')).text).toBe('{"id":"7","big":9223372036854775807}');
  });

  test('deep nesting is refused, with and without long numbers', async () => {
    const deep = `${'['.repeat(1500)}1${']'.repeat(1500)}`;
    await expectRefusal(echo, post(`{"key":"a","metadata":{"d":${deep}}}`), 400, 'INVALID_REQUEST', /nested/);
    await expectRefusal(
      echo,
      post(`{"key":"a","amount":9007199254740993,"metadata":{"d":${deep}}}`),
      400,
      'INVALID_REQUEST',
      /nested/,
    );
  });
});

describe('query strings', () => {
  test('declared parameters are converted, others ignored', async () => {
    expect((await call('/probe/list?limit=7&sort_dir=asc&unknown=1')).text).toBe(
      '{"limit":7,"sort_dir":"asc"}',
    );
    expect((await call('/probe/list')).text).toBe('{}');
  });

  test.each([
    ['limit=0', /limit must be an integer from 1 to 200/],
    ['limit=201', /limit must be an integer from 1 to 200/],
    ['limit=', /limit must be an integer/],
    ['limit=1.5', /limit must be an integer/],
    ['limit=abc', /limit must be an integer/],
    ['limit=99999999999999999999', /limit must be an integer/],
    ['limit=1&limit=2', /limit is given more than once/],
    ['sort_dir=up', /sort_dir must be one of asc, desc/],
  ])('%s is refused', async (query, message) => {
    await expectRefusal(`/probe/list?${query}`, {}, 400, 'INVALID_REQUEST', message);
  });
});

describe('failures', () => {
  test('a refusal has the status of its code, and its details', async () => {
    const body = await expectRefusal('/probe/refuse', {}, 409, 'BUDGET_EXCEEDED', /tenant:acme/);
    expect(body.details).toMatchObject({ scope: 'tenant:acme' });
  });

  test('an unavailable store is 503 with Retry-After', async () => {
    await expectRefusal('/probe/unavailable', {}, 503, 'INTERNAL_ERROR', /out of memory/);
    expect((await call('/probe/unavailable')).headers['retry-after']).toBe('5');
  });

  test("Nest's own exceptions take the error form", async () => {
    await expectRefusal('/probe/forbidden', {}, 403, 'FORBIDDEN', /no/);
  });

  test('a defect is 500 without internals, logged once with its ids and counted', async () => {
    const body = await expectRefusal('/probe/defect/5', {}, 500, 'INTERNAL_ERROR', /internal error/);
    expect(JSON.stringify(body)).not.toContain('secret internals');
    const lines = probe.logs.filter((line) => line['request_id'] === body.request_id);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatchObject({
      trace_id: body.trace_id,
      route: '/probe/defect/:id',
      err: { message: 'secret internals' },
    });
    const ready = JSON.parse((await call('/health/ready')).text) as {
      status: string;
      details: { errors: object };
    };
    expect(ready).toMatchObject({
      status: 'ok',
      details: { errors: { status: 'up', unexpected: expect.any(Number) } },
    });
  });

  test('successful requests are not logged', async () => {
    const before = probe.logs.length;
    await call('/probe/items/1');
    await call('/v1/nothing');
    expect(probe.logs.length).toBe(before);
  });
});
