import 'reflect-metadata';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { request } from 'undici';
import { HealthContributors, ShutdownState } from '../../src/telemetry/health.js';
import { eventually } from '../support/eventually.js';
import { startRedis, stopAllRedis } from '../support/redis-server.js';
import { ADMIN_KEY, startProbeApp, type ProbeApp } from './probe-app.js';

const LIVE = ['/health/live', '/actuator/health/liveness'];
const READY = ['/health/ready', '/actuator/health', '/actuator/health/readiness'];

async function statusOf(app: ProbeApp, path: string, method: 'GET' | 'HEAD' = 'GET'): Promise<number> {
  const response = await request(app.url + path, { method });
  const text = await response.body.text();
  expect(response.headers['x-request-id']).toMatch(/^req_/);
  expect(response.headers['x-cycles-trace-id']).toMatch(/^[0-9a-f]{32}$/);
  if (method === 'HEAD') {
    expect(text).toBe('');
  }
  return response.statusCode;
}

async function readyBody(app: ProbeApp, path = '/health/ready'): Promise<Record<string, unknown>> {
  const response = await request(app.url + path);
  return (await response.body.json()) as Record<string, unknown>;
}

/** The readiness metrics of a scrape: the process's own, and that of its Redis. */
async function readinessGauges(app: ProbeApp): Promise<string[]> {
  const response = await request(`${app.url}/metrics`, { headers: { 'x-admin-api-key': ADMIN_KEY } });
  return [
    ...(await response.body.text()).matchAll(/^(?:holdfast_ready|holdfast_redis_up)\{.*\} (\d)$/gm),
  ].map(([, value]) => value as string);
}

describe('a healthy process', () => {
  let app: ProbeApp;
  beforeAll(async () => {
    app = await startProbeApp();
  });
  afterAll(() => app.close());

  test.each([...LIVE, ...READY])('%s answers GET and HEAD without a key', async (path) => {
    expect(await statusOf(app, path, 'GET')).toBe(200);
    expect(await statusOf(app, path, 'HEAD')).toBe(200);
  });

  test("readiness shows the store, in the reference's form and in ours", async () => {
    expect(await readyBody(app)).toMatchObject({
      status: 'ok',
      details: {
        redis: {
          status: 'up',
          memory: { policy: 'noeviction' },
          embedded: false,
          persistence: { appendLog: expect.any(Boolean) },
        },
      },
    });
    expect(await readyBody(app, '/actuator/health')).toMatchObject({
      status: 'UP',
      components: { redis: { status: 'UP' } },
    });
  });

  test('a wrong method is 405', async () => {
    expect(await statusOf(app, '/health/ready', 'POST' as 'GET')).toBe(405);
  });

  test('a contributor that is down or throws turns readiness red, not liveness', async () => {
    let up = false;
    app.app.get(HealthContributors).register({
      name: 'scripted',
      check: () => {
        if (up) {
          return { up: true };
        }
        throw new Error('not today');
      },
    });
    await eventually('readiness is red', async () => (await statusOf(app, '/health/ready')) === 503);
    expect(await readyBody(app)).toMatchObject({
      status: 'error',
      details: { scripted: { status: 'down', message: 'not today' } },
    });
    expect(await readyBody(app, '/actuator/health/readiness')).toMatchObject({ status: 'DOWN' });
    expect(await statusOf(app, '/health/live')).toBe(200);
    up = true;
    await eventually('readiness is green', async () => (await statusOf(app, '/health/ready')) === 200);
  });
});

describe('a process that loses a dependency', () => {
  afterEach(() => stopAllRedis());

  test('readiness is red while Redis is stopped and green when it is back; liveness stays green', async () => {
    const redis = await startRedis();
    const app = await startProbeApp({ redisUrl: redis.url });
    try {
      expect(await statusOf(app, '/health/ready')).toBe(200);
      expect(await readinessGauges(app)).toEqual(['1', '1']);
      await redis.kill();
      await eventually('readiness is red', async () => (await statusOf(app, '/health/ready')) === 503);
      for (const path of READY) {
        expect(await statusOf(app, path, 'HEAD')).toBe(503);
      }
      expect(await readyBody(app)).toMatchObject({ status: 'error', details: { redis: { status: 'down' } } });
      expect(await readinessGauges(app)).toEqual(['0', '0']);
      expect(await statusOf(app, '/health/live')).toBe(200);
      await redis.restart();
      await eventually('readiness is green', async () => (await statusOf(app, '/health/ready')) === 200);
    } finally {
      await app.close();
    }
  });

  test('readiness is red as soon as a shutdown begins', async () => {
    const app = await startProbeApp();
    try {
      app.app.get(ShutdownState).beginShutdown();
      expect(await readyBody(app)).toMatchObject({
        status: 'error',
        details: { shutdown: { status: 'down' } },
      });
      expect(await statusOf(app, '/health/live')).toBe(200);
    } finally {
      await app.close();
    }
  });
});
