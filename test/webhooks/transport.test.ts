import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { lookup as resolve, type LookupAddress } from 'node:dns';
import { createServer, type AddressInfo, type LookupFunction, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { TARGET_BLOCKED } from '../../src/webhooks/target-policy/target-policy.js';
import type { AttemptOutcome } from '../../src/webhooks/transport/attempt.js';
import { type DialPolicy, WebhookTransport } from '../../src/webhooks/transport/webhook-transport.js';
import { eventually } from '../support/eventually.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';

const PATIENT_MS = 30_000;
const open: { stop(): Promise<void> }[] = [];

afterEach(async () => {
  await Promise.all(open.splice(0).map((one) => one.stop()));
});

/** A policy that records the names it was asked about, and answers as a test says. */
class TestPolicy implements DialPolicy {
  readonly looked: string[] = [];
  addresses: Record<string, LookupAddress[]> = {};
  blocked = new Set<string>();
  refusal: string | undefined;
  failure: Error | undefined;
  version = 1;

  readonly lookup: LookupFunction = (hostname, options, callback) => {
    this.looked.push(hostname);
    const answer = (addresses: LookupAddress[]): void => {
      const refused = addresses.find(({ address }) => this.blocked.has(address));
      if (refused !== undefined) {
        callback(Object.assign(new Error(`${refused.address} is blocked`), { code: TARGET_BLOCKED }), '', 0);
      } else if (options.all === true) {
        callback(null, addresses);
      } else {
        callback(null, addresses[0]?.address ?? '', addresses[0]?.family);
      }
    };
    const known = this.addresses[hostname];
    if (known !== undefined) {
      process.nextTick(answer, known);
      return;
    }
    resolve(hostname, { all: true }, (error, addresses) =>
      error === null ? answer(addresses) : callback(error, '', 0),
    );
  };

  forOwner<T>(_owner: string, dial: () => T): T {
    return dial();
  }

  knownFailure(): Error | undefined {
    return this.failure;
  }

  urlRefusal(): Promise<string | undefined> {
    return Promise.resolve(this.refusal);
  }

  revision(): number {
    return this.version;
  }
}

/** Redis' time. */
const NOW_MS = Date.UTC(2026, 9, 21, 7, 28, 5);

const transportWith = (policy: TestPolicy, ca?: string): WebhookTransport => {
  const transport = new WebhookTransport(policy, { nowMs: () => NOW_MS }, ca === undefined ? {} : { ca });
  open.push({ stop: () => transport.onApplicationShutdown() });
  return transport;
};

async function receiver(options?: Parameters<typeof WebhookReceiver.start>[0]): Promise<WebhookReceiver> {
  const started = await WebhookReceiver.start(options);
  open.push(started);
  return started;
}

const post = (transport: WebhookTransport, url: string, timeoutMs = PATIENT_MS): Promise<AttemptOutcome> =>
  transport.post({
    owner: 'acme',
    url,
    headers: { 'content-type': 'application/json', 'x-test': 'yes' },
    body: '{"a":"ü"}',
    timeoutMs,
  });

describe('a delivery', () => {
  test('is one HTTP/1.1 POST of the exact bytes, over a connection that is kept alive', async () => {
    const endpoint = await receiver();
    const transport = transportWith(new TestPolicy());
    for (const path of ['/hook?a=1&b=%20', '/other']) {
      expect(await post(transport, endpoint.url + path)).toEqual({
        ok: true,
        status: 200,
        durationMs: expect.any(Number),
      });
      // A connection is free again one turn of the event loop after its response.
      await setImmediate();
    }
    expect(endpoint.received).toEqual(
      ['/hook?a=1&b=%20', '/other'].map((path) =>
        expect.objectContaining({
          method: 'POST',
          path,
          httpVersion: '1.1',
          body: '{"a":"ü"}',
          connection: 1,
          headers: expect.objectContaining({
            host: new URL(endpoint.url).host,
            'content-length': '10',
            'x-test': 'yes',
          }),
        }),
      ),
    );
  });

  test.each([
    [200, true],
    [201, true],
    [204, true],
    [299, true],
  ])('succeeds with %i', async (status, ok) => {
    const endpoint = await receiver();
    endpoint.react = (response) => response.writeHead(status).end();
    expect(await post(transportWith(new TestPolicy()), endpoint.url)).toMatchObject({ ok, status });
  });

  test.each([
    [301, 'http_3xx'],
    [302, 'http_3xx'],
    [307, 'http_3xx'],
    [400, 'http_4xx'],
    [404, 'http_4xx'],
    [399, 'http_3xx'],
    [410, 'http_4xx'],
    [499, 'http_4xx'],
    [500, 'http_5xx'],
    [503, 'http_5xx'],
  ])('fails with %i, and nothing is followed', async (status, reason) => {
    const endpoint = await receiver();
    endpoint.react = (response) =>
      response.writeHead(status, { location: `${endpoint.url}/elsewhere` }).end('secret words');
    const outcome = await post(transportWith(new TestPolicy()), endpoint.url);
    expect(outcome).toEqual({
      ok: false,
      status,
      reason,
      durationMs: expect.any(Number),
      error: expect.stringContaining(`answered ${status}`),
      // Only the detail of a delivery shows it.
      text: 'secret words',
    });
    expect(endpoint.received).toHaveLength(1);
  });

  test('reaches an IPv6 endpoint', async () => {
    const endpoint = await receiver({ host: '::1' });
    const policy = new TestPolicy();
    expect(await post(transportWith(policy), endpoint.url)).toMatchObject({ ok: true, status: 200 });
    expect(policy.looked).toEqual(['::1']);
  });

  test('fails with a reason when the port is closed, and when the connection breaks', async () => {
    const endpoint = await receiver();
    const transport = transportWith(new TestPolicy());
    endpoint.react = (response) => response.socket?.destroy();
    expect(await post(transport, endpoint.url)).toMatchObject({
      ok: false,
      reason: 'transport_error',
      error: expect.stringMatching(/./),
    });
    await endpoint.stop();
    expect(await post(transport, endpoint.url)).toMatchObject({
      ok: false,
      reason: 'transport_error',
      error: expect.stringContaining('ECONNREFUSED'),
    });
    expect(await post(transport, 'no url')).toMatchObject({ ok: false, reason: 'transport_error' });
    expect(await post(transport, 'http://no-such-host.invalid/')).toMatchObject({
      ok: false,
      reason: 'transport_error',
    });
  });

  test('with a header that HTTP cannot carry fails, and is not thrown', async () => {
    const endpoint = await receiver();
    const outcome = await transportWith(new TestPolicy()).post({
      owner: 'acme',
      url: endpoint.url,
      headers: { 'x-a': 'b\r\nx-c: d' },
      body: '',
      timeoutMs: PATIENT_MS,
    });
    expect(outcome).toMatchObject({ ok: false, reason: 'transport_error' });
    expect(endpoint.received).toHaveLength(0);
  });
});

describe('an endpoint that hangs', () => {
  test('is given up when the time is up, and its connection is closed', async () => {
    const endpoint = await receiver();
    endpoint.react = () => undefined;
    expect(await post(transportWith(new TestPolicy()), endpoint.url, 50)).toMatchObject({
      ok: false,
      reason: 'transport_error',
      error: 'no answer within 50 ms',
    });
    await eventually('the connection is closed', async () => (await endpoint.openConnections()) === 0);
  });

  test('before its address is known is given up when the time is up, and is sent nothing later', async () => {
    const endpoint = await receiver();
    const policy = new TestPolicy();
    let answerNow: () => void = () => undefined;
    const slow: LookupFunction = (_hostname, options, callback) => {
      answerNow = () =>
        options.all === true
          ? callback(null, [{ address: '127.0.0.1', family: 4 }])
          : callback(null, '127.0.0.1', 4);
    };
    Object.assign(policy, { lookup: slow });
    const transport = transportWith(policy);
    expect(await post(transport, `http://slow.test:${endpoint.port}/`, 50)).toMatchObject({
      ok: false,
      error: 'no answer within 50 ms',
    });
    answerNow();
    await eventually(
      'it was connected to, and disconnected again',
      async () => endpoint.connectionCount === 1 && (await endpoint.openConnections()) === 0,
    );
    expect(endpoint.received).toHaveLength(0);
  });

  test('does not delay a delivery to the same host', async () => {
    const endpoint = await receiver();
    let breakOff = (): unknown => undefined;
    endpoint.react = (response, { path }) => {
      breakOff = path === '/hangs' ? () => response.destroy() : breakOff;
      void (path === '/hangs' || response.writeHead(200).end());
    };
    const transport = transportWith(new TestPolicy());
    const hanging = post(transport, `${endpoint.url}/hangs`);
    await eventually('the first is there', () => endpoint.received.length === 1);
    expect(await post(transport, `${endpoint.url}/answers`)).toMatchObject({ ok: true });
    expect(await Promise.race([hanging, Promise.resolve('still hanging')])).toBe('still hanging');
    breakOff();
    expect(await hanging).toMatchObject({ ok: false });
  });
});

describe("a response's body", () => {
  test('without an end is cut off, and the status counts', async () => {
    const endpoint = await receiver();
    let sent = 0;
    endpoint.react = (response) => {
      response.writeHead(200);
      const chunk = Buffer.alloc(16 * 1024);
      const more = (): void => {
        while (!response.destroyed && response.write(chunk)) {
          sent += chunk.length;
        }
      };
      response.on('drain', more);
      more();
    };
    expect(await post(transportWith(new TestPolicy()), endpoint.url)).toMatchObject({
      ok: true,
      status: 200,
    });
    await eventually('the connection is closed', async () => (await endpoint.openConnections()) === 0);
    expect(sent).toBeLessThan(64 * 1024 * 1024);
  });

  test('of a gigabyte is neither awaited nor kept', async () => {
    const endpoint = await receiver();
    endpoint.react = (response) => {
      response.writeHead(500, { 'content-length': String(1024 ** 3) });
      response.write(Buffer.alloc(256 * 1024));
    };
    expect(await post(transportWith(new TestPolicy()), endpoint.url)).toMatchObject({
      ok: false,
      status: 500,
      reason: 'http_5xx',
    });
    await eventually('the connection is closed', async () => (await endpoint.openConnections()) === 0);
  });

  test('that trickles in is not awaited once the status is known', async () => {
    const endpoint = await receiver();
    endpoint.react = (response) => {
      response.writeHead(202);
      response.write('a');
    };
    expect(await post(transportWith(new TestPolicy()), endpoint.url)).toMatchObject({
      ok: true,
      status: 202,
    });
    await eventually('the connection is closed', async () => (await endpoint.openConnections()) === 0);
  });

  test('that arrives early does not end the next delivery', async () => {
    const listener: Server = createServer((socket: Socket) => {
      socket.on('error', () => undefined);
      socket.on('data', () =>
        socket.write(
          'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok',
        ),
      );
    });
    await new Promise<void>((done) => listener.listen(0, '127.0.0.1', done));
    open.push({ stop: () => new Promise((done) => listener.close(() => done())) });
    const transport = transportWith(new TestPolicy());
    const url = `http://127.0.0.1:${(listener.address() as AddressInfo).port}/`;
    for (let i = 0; i < 2; i += 1) {
      expect(await post(transport, url)).toMatchObject({ ok: true, status: 200 });
    }
    await transport.onApplicationShutdown();
  });
});

describe('Retry-After', () => {
  const NOW = 'Wed, 21 Oct 2026 07:28:00 GMT';
  test.each<[string, Record<string, string>, number | undefined]>([
    ['seconds', { 'retry-after': '7' }, 7000],
    ['no time at all', { 'retry-after': '0' }, 0],
    ['more than an hour', { 'retry-after': '86400' }, 3_600_000],
    ['a number of eleven digits', { 'retry-after': '99999999999' }, 3_600_000],
    ['a number that no double can hold', { 'retry-after': '9'.repeat(400) }, 3_600_000],
    [
      "a date, by the endpoint's own clock",
      { 'retry-after': 'Wed, 21 Oct 2026 07:28:30 GMT', date: NOW },
      30_000,
    ],
    ['a date of the past', { 'retry-after': 'Wed, 21 Oct 2026 07:27:00 GMT', date: NOW }, 0],
    ['a date of another year', { 'retry-after': 'Thu, 21 Oct 2027 07:28:00 GMT', date: NOW }, 3_600_000],
    ['a negative number', { 'retry-after': '-5' }, undefined],
    ['words', { 'retry-after': 'soon' }, undefined],
    ['nothing', {}, undefined],
  ])('may ask for %s', async (_what, headers, expected) => {
    const endpoint = await receiver();
    endpoint.react = (response) => response.writeHead(503, headers).end();
    const { retryAfterMs } = await post(transportWith(new TestPolicy()), endpoint.url);
    expect(retryAfterMs).toBe(expected);
  });

  test("may ask for a date without its own, which is then compared with Redis' time", async () => {
    const endpoint = await receiver();
    endpoint.react = (response) => {
      response.sendDate = false;
      response.writeHead(503, { 'retry-after': 'Wed, 21 Oct 2026 07:28:30 GMT' }).end();
    };
    expect((await post(transportWith(new TestPolicy()), endpoint.url)).retryAfterMs).toBe(25_000);
  });

  test('in a 200 response has no effect', async () => {
    const endpoint = await receiver();
    endpoint.react = (response) => response.writeHead(200, { 'retry-after': '7' }).end();
    expect(await post(transportWith(new TestPolicy()), endpoint.url)).not.toHaveProperty('retryAfterMs');
  });
});

describe('the policy', () => {
  test('refuses a URL before anything is looked up', async () => {
    const endpoint = await receiver();
    const policy = new TestPolicy();
    policy.refusal = 'http is not allowed';
    expect(await post(transportWith(policy), endpoint.url)).toEqual({
      ok: false,
      durationMs: 0,
      reason: 'target_blocked',
      error: 'http is not allowed',
    });
    expect(policy.looked).toEqual([]);
    expect(endpoint.connectionCount).toBe(0);
  });

  test('that knows that a name fails ends the attempt immediately, unless a connection is open', async () => {
    const endpoint = await receiver();
    const policy = new TestPolicy();
    const transport = transportWith(policy);
    policy.failure = new Error('hook.test has no address');
    const failed = { ok: false, reason: 'transport_error', error: 'hook.test has no address' };
    policy.addresses['hook.test'] = [{ address: '127.0.0.1', family: 4 }];
    const url = `http://hook.test:${endpoint.port}/`;
    expect(await post(transport, url)).toMatchObject(failed);
    expect([policy.looked, endpoint.connectionCount]).toEqual([[], 0]);

    policy.failure = undefined;
    expect(await post(transport, url)).toMatchObject({ ok: true });
    await setImmediate();
    policy.failure = new Error('hook.test has no address');
    expect(await post(transport, url)).toMatchObject({ ok: true });
    expect(endpoint.connectionCount).toBe(1);
    await endpoint.stop();
    await eventually(
      'the connection is closed',
      async () => (await post(transport, url)).error === failed.error,
    );
  });

  test('that is unavailable lets nothing be sent', async () => {
    const endpoint = await receiver();
    const policy = new TestPolicy();
    policy.urlRefusal = () => Promise.reject(new Error('the store cannot be reached'));
    expect(await post(transportWith(policy), endpoint.url)).toMatchObject({
      ok: false,
      reason: 'transport_error',
      error: 'the store cannot be reached',
    });
    expect(endpoint.connectionCount).toBe(0);
  });

  test('is asked about the address that is dialed, even if the name used to resolve elsewhere', async () => {
    const endpoint = await receiver();
    const policy = new TestPolicy();
    policy.addresses['rebound.test'] = [{ address: '127.0.0.1', family: 4 }];
    policy.blocked.add('127.0.0.1');
    const transport = transportWith(policy);
    expect(await post(transport, `http://rebound.test:${endpoint.port}/`)).toMatchObject({
      ok: false,
      reason: 'target_blocked',
      error: '127.0.0.1 is blocked',
    });
    expect(policy.looked).toEqual(['rebound.test']);
    expect(endpoint.connectionCount).toBe(0);
    policy.blocked.clear();
    expect(await post(transport, `http://rebound.test:${endpoint.port}/`)).toMatchObject({ ok: true });
    expect(endpoint.received[0]?.headers['host']).toBe(`rebound.test:${endpoint.port}`);
  });

  test('also checks addresses in the URL', async () => {
    const endpoint = await receiver();
    const policy = new TestPolicy();
    policy.blocked.add('127.0.0.1');
    const transport = transportWith(policy);
    for (const host of ['127.0.0.1', '0x7f.1', '2130706433']) {
      expect(await post(transport, `http://${host}:${endpoint.port}/`)).toMatchObject({
        ok: false,
        reason: 'target_blocked',
      });
    }
    expect(endpoint.connectionCount).toBe(0);
  });

  test('that changed does not use connections that it did not check', async () => {
    const endpoint = await receiver();
    const policy = new TestPolicy();
    const transport = transportWith(policy);
    expect(await post(transport, endpoint.url)).toMatchObject({ ok: true });
    policy.blocked.add('127.0.0.1');
    policy.version += 1;
    expect(await post(transport, endpoint.url)).toMatchObject({ ok: false, reason: 'target_blocked' });
    expect(endpoint.received).toHaveLength(1);
    await eventually('the old connection is closed', async () => (await endpoint.openConnections()) === 0);
  });
});

describe('over TLS', () => {
  let key: string;
  let cert: string;

  beforeAll(() => {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-tls-'));
    const [keyFile, certFile] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
    execFileSync(
      'openssl',
      [
        'req',
        '-x509',
        '-newkey',
        'ec',
        '-pkeyopt',
        'ec_paramgen_curve:P-256',
        '-nodes',
        '-days',
        '2',
        '-subj',
        '/CN=hooks.test',
        '-addext',
        'subjectAltName=DNS:hooks.test',
        '-keyout',
        keyFile,
        '-out',
        certFile,
      ],
      { stdio: 'pipe' },
    );
    [key, cert] = [readFileSync(keyFile, 'utf8'), readFileSync(certFile, 'utf8')];
    rmSync(folder, { recursive: true });
  });

  const toHere = (): TestPolicy => {
    const policy = new TestPolicy();
    for (const name of ['hooks.test', 'other.test']) {
      policy.addresses[name] = [{ address: '127.0.0.1', family: 4 }];
    }
    return policy;
  };

  test('a delivery reaches the host that its certificate names', async () => {
    const endpoint = await receiver({ tls: { key, cert } });
    expect(await post(transportWith(toHere(), cert), `https://hooks.test:${endpoint.port}/`)).toMatchObject({
      ok: true,
      status: 200,
    });
    expect(endpoint.received[0]).toMatchObject({ httpVersion: '1.1', body: '{"a":"ü"}' });
  });

  test('a certificate of an unknown authority, or for another name, is refused', async () => {
    const endpoint = await receiver({ tls: { key, cert } });
    expect(await post(transportWith(toHere()), `https://hooks.test:${endpoint.port}/`)).toMatchObject({
      ok: false,
      reason: 'transport_error',
      error: expect.stringContaining('self-signed certificate'),
    });
    expect(await post(transportWith(toHere(), cert), `https://other.test:${endpoint.port}/`)).toMatchObject({
      ok: false,
      reason: 'transport_error',
      error: expect.stringContaining('altnames'),
    });
    expect(endpoint.received).toHaveLength(0);
  });
});
