import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { pbkdf2 } from 'node:crypto';
import { parseHosts, type ResolveHost, resolverOf } from '../../src/webhooks/target-policy/host-lookups.js';
import { DnsServer } from '../support/dns-server.js';

let server: DnsServer;
let resolve: ResolveHost;

beforeEach(async () => {
  server = await DnsServer.start();
  resolve = resolverOf([server.address]);
});

afterEach(() => {
  server.stop();
});

describe('a host name', () => {
  test('is resolved to its addresses of both kinds, with how long they may be kept', async () => {
    server.answers.set('hooks.example', ['192.0.2.1', '192.0.2.2', '2001:db8::7']);
    server.ttlS = 17;
    expect(await resolve('Hooks.Example.')).toEqual([
      { address: '192.0.2.1', family: 4, ttl: 17 },
      { address: '192.0.2.2', family: 4, ttl: 17 },
      { address: '2001:db8::7', family: 6, ttl: 17 },
    ]);
  });

  test.each([
    ['4', '192.0.2.1'],
    ['6', '2001:db8::7'],
  ])('needs no address of the other kind than %s', async (_, address) => {
    server.answers.set('hooks.example', [address]);
    expect((await resolve('hooks.example')).map((found) => found.address)).toEqual([address]);
  });

  test('that does not exist, or has no address, is not found', async () => {
    server.answers.set('empty.example', []);
    await expect(resolve('unknown.example')).rejects.toMatchObject({
      code: 'ENOTFOUND',
      message: 'unknown.example has no address',
    });
    await expect(resolve('empty.example')).rejects.toMatchObject({ code: 'ENOTFOUND' });
  });

  test('whose servers fail is not reported as missing', async () => {
    server.answers.set('failing.example', 'failing');
    await expect(resolve('failing.example')).rejects.toMatchObject({
      code: 'ESERVFAIL',
      message: 'failing.example was not resolved: ESERVFAIL',
    });
  });

  test('whose servers are silent is given up after five seconds, without affecting others', async () => {
    server.answers.set('silent.example', 'silent');
    server.answers.set('hooks.example', ['192.0.2.1']);
    const limits = jest.spyOn(globalThis, 'setTimeout');
    const silent = resolve('silent.example');
    const ended = silent.then(
      () => 'resolved',
      () => 'given up',
    );
    expect(await Promise.race([ended, resolve('hooks.example')])).toHaveLength(1);
    await expect(silent).rejects.toMatchObject({
      code: 'ETIMEOUT',
      message: 'silent.example was not resolved within 5000 ms',
    });
    expect(limits.mock.calls.filter(([, ms]) => ms === 5000)).toHaveLength(2);
    limits.mockRestore();
  });

  test('is looked up unchanged, without search domains', async () => {
    await expect(resolve('webhook-receiver')).rejects.toMatchObject({ code: 'ENOTFOUND' });
    expect(new Set(server.asked)).toEqual(new Set(['A webhook-receiver', 'AAAA webhook-receiver']));
  });

  test('of this machine needs no server', async () => {
    expect((await resolve('localhost')).map(({ address }) => address)).toContain('127.0.0.1');
    expect((await resolve('a.localhost')).map(({ address }) => address)).toEqual(['127.0.0.1', '::1']);
    expect(server.asked).toEqual([]);
  });
});

test('a hosts file is read as the system reads it', () => {
  const text =
    '# comment\n127.0.0.1 localhost  Loopback # that is us\n\n10.0.0.9\treceiver receiver.internal\nfe80::1 receiver\nnonsense name\n';
  expect([...parseHosts(text)]).toEqual([
    ['localhost', [{ address: '127.0.0.1', family: 4 }]],
    ['loopback', [{ address: '127.0.0.1', family: 4 }]],
    [
      'receiver',
      [
        { address: '10.0.0.9', family: 4 },
        { address: 'fe80::1', family: 6 },
      ],
    ],
    ['receiver.internal', [{ address: '10.0.0.9', family: 4 }]],
  ]);
});

test('forty silent names take no thread of the process', async () => {
  const names = Array.from({ length: 40 }, (_, index) => `silent-${index}.example`);
  names.forEach((name) => server.answers.set(name, 'silent'));
  const outcomes = names.map((name) => expect(resolve(name)).rejects.toMatchObject({ code: 'ETIMEOUT' }));
  const work = new Promise<string>((done, fail) =>
    pbkdf2('a', 'b', 1000, 32, 'sha256', (error) => (error === null ? done('work') : fail(error))),
  );
  const firstGivenUp = Promise.race(outcomes).then(() => 'lookup');
  expect(await Promise.race([work, firstGivenUp])).toBe('work');
  await Promise.all(outcomes);
});
