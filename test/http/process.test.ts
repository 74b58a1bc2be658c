import { connect, createServer, type Server } from 'node:net';
import { once } from 'node:events';
import { afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { buildService, spawnService, startService, type ServiceProcess } from '../support/built-service.js';
import { eventually } from '../support/eventually.js';
import { startRedis, stopAllRedis } from '../support/redis-server.js';
import type { Settings } from '../support/settings.js';
import { sharedStoreUrl } from '../support/store.js';

const started: ServiceProcess[] = [];
const listeners: Server[] = [];

beforeAll(buildService, 120_000);

afterEach(async () => {
  for (const { child } of started) {
    child.kill('SIGKILL');
  }
  await Promise.all(started.splice(0).map(({ ended }) => ended));
  for (const listener of listeners.splice(0)) {
    listener.close();
  }
  await stopAllRedis();
});

const settings = (env: Settings): Settings => ({
  HOST: '127.0.0.1',
  HOLDFAST_ROLES: 'api',
  ADMIN_API_KEY: 'admin-key-for-tests-only',
  WEBHOOK_SECRET_ENCRYPTION_KEY: '5e'.repeat(32),
  REDIS_URL: sharedStoreUrl(),
  ...env,
});

function start(env: Settings): ServiceProcess {
  const service = spawnService(settings(env));
  started.push(service);
  return service;
}

async function startReady(env: Settings = {}): Promise<{ service: ServiceProcess; url: string }> {
  const service = await startService(settings(env));
  started.push(service);
  const { url } = service;
  await eventually('the service is ready', async () => (await fetch(`${url}/health/ready`)).status === 200);
  return { service, url };
}

describe('the built service', () => {
  test.each(['SIGTERM', 'SIGINT'] as const)(
    '%s ends it with 0, and it accepts no more connections',
    async (signal) => {
      const { service, url } = await startReady();
      service.child.kill(signal);
      expect(await service.ended).toBe(0);
      await expect(fetch(`${url}/health/live`)).rejects.toThrow();
      expect(service.output.stderr).toBe('');
    },
  );

  test('a second signal ends it at once, though a request is still open', async () => {
    const redis = await startRedis();
    const { service, url } = await startReady({ REDIS_URL: redis.url });
    const open = connect(Number(new URL(url).port), '127.0.0.1');
    const closed = once(open, 'close');
    // The body never arrives, so the request stays in flight. "100 Continue" confirms that the server has it.
    open.write(
      'POST /v1/reservations HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n',
    );
    expect(String((await once(open, 'data'))[0])).toContain('100 Continue');
    service.child.kill('SIGTERM');
    await eventually('the shutdown has begun', () => service.output.stdout.includes('shutting down'));
    service.child.kill('SIGTERM');
    expect(await service.ended).toBe(1);
    await closed;
  });
});

describe('a failed start prints exactly one line and exits with 1', () => {
  test('a taken port', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    listeners.push(taken);
    await once(taken, 'listening');
    const { port } = taken.address() as { port: number };
    const service = start({ PORT: String(port), LOG_LEVEL: 'warn' });
    expect(await service.ended).toBe(1);
    const { stdout, stderr } = service.output;
    expect(stderr).toBe(`holdfast: PORT ${port} on 127.0.0.1 is already in use; set PORT to a free port\n`);
    // The tests' Redis is warned of, wherever the service gets to.
    const others = stdout.split('\n').filter((line) => !/"code":"no_(memory_limit|append_log)"/.test(line));
    expect(others).toEqual(['']);
  });

  test('an invalid value of a variable', async () => {
    const service = start({ PORT: 'abc' });
    expect(await service.ended).toBe(1);
    expect(service.output.stdout).toBe('');
    expect(service.output.stderr).toMatch(/^holdfast: PORT: [^\n]*\n$/);
  });

  test('an evicting Redis', async () => {
    const redis = await startRedis({ maxmemory: '100mb', policy: 'allkeys-lru' });
    const service = start({ PORT: '0', REDIS_URL: redis.url, LOG_LEVEL: 'fatal' });
    expect(await service.ended).toBe(1);
    expect(service.output.stderr).toMatch(/^holdfast: [^\n]*noeviction[^\n]*\n$/);
  });
});
