import { afterEach, beforeAll, expect, test } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import { buildService, startService } from '../support/built-service.js';
import { eventually } from '../support/eventually.js';
import {
  ADMIN_API_KEY,
  expectStatus,
  HoldfastClient,
  newKey,
  reserveBody,
  WEBHOOK_SECRET_ENCRYPTION_KEY,
  type Answer,
  type Call,
  type TestTenant,
} from '../support/holdfast.js';
import { NoAnswer } from '../support/send.js';
import { startRedis, stopAllRedis } from '../support/redis-server.js';

type Service = Awaited<ReturnType<typeof startService>>;

const CLIENTS = 8;
const PAUSE_MS = 10;
const services: Service[] = [];
let stopped = false;

beforeAll(buildService, 120_000);

afterEach(async () => {
  stopped = true;
  for (const { child } of services) {
    child.kill('SIGKILL');
  }
  await Promise.all(services.map(({ ended }) => ended));
  await stopAllRedis();
});

/**
 * Whether an instance did not accept the connection. When it stops to listen, the system resets connections that wait to be accepted, even if
 * their request has been sent.
 */
function wasNotAccepted(error: unknown): boolean {
  const { code } = ((error as Error).cause ?? {}) as { code?: string };
  return (
    code === 'ECONNREFUSED' || (code === 'ECONNRESET' && error instanceof NoAnswer && error.onNewConnection)
  );
}

/** Switches to the other instance if one accepts no connection, and treats every response as final. */
class PatientClient extends HoldfastClient {
  private turn = 0;
  refusals = 0;

  constructor(private readonly urls: readonly string[]) {
    super(urls[0] as string);
  }

  override async call(method: string, path: string, call: Call = {}): Promise<Answer> {
    for (;;) {
      this.turn += 1;
      const instance = new HoldfastClient(this.urls[this.turn % this.urls.length] as string);
      try {
        return await instance.call(method, path, call);
      } catch (error) {
        if (!wasNotAccepted(error)) {
          throw error;
        }
        this.refusals += 1;
        await delay(PAUSE_MS);
      }
    }
  }
}

/** Reserves and commits until it is stopped. Returns the number of successes; every response must be one. */
async function work(client: PatientClient, tenant: TestTenant): Promise<number> {
  let commits = 0;
  while (!stopped) {
    const held = await client.call('POST', '/v1/reservations', {
      key: tenant.key,
      body: reserveBody(tenant, 5),
    });
    const { reservation_id: id } = expectStatus(held, 200);
    const actual = { unit: 'TOKENS', amount: 3 };
    expectStatus(
      await client.settle(tenant, 'commit', id as string, { actual, idempotency_key: newKey() }),
      200,
    );
    commits += 1;
  }
  return commits;
}

test('a rolling restart under load loses no request: SIGTERM lets each finish, and the other instance takes the next', async () => {
  const redis = await startRedis();
  const start = async (port: string): Promise<Service> => {
    const env = {
      REDIS_URL: redis.url,
      ADMIN_API_KEY,
      WEBHOOK_SECRET_ENCRYPTION_KEY,
      PORT: port,
      LOG_LEVEL: 'info',
    };
    const service = await startService(env);
    services.push(service);
    return service;
  };
  const running = [await start('0'), await start('0')];
  const client = new PatientClient(running.map(({ url }) => url));
  const tenant = await client.fundedTenant(1_000_000_000);
  stopped = false;
  let answered = 0;
  const clients = Array.from({ length: CLIENTS }, () => work(client, tenant));
  const all = Promise.all(clients);
  for (const service of running) {
    await delay(500);
    service.child.kill('SIGTERM');
    expect(await Promise.race([service.ended, all.then(() => 'the clients ended')])).toBe(0);
    expect(service.output.stderr).toBe('');
    // Meanwhile, the kernel may have lent the port to somebody else for a moment.
    const back = await eventually('it starts again', () => start(new URL(service.url).port), 30_000);
    await eventually('it is ready', async () => (await fetch(`${back.url}/health/ready`)).status === 200);
  }
  stopped = true;
  answered = (await all).reduce((sum, count) => sum + count, 0);
  expect(client.refusals).toBeGreaterThan(0);
  const balances = await client.balances(tenant);
  expect(balances).toEqual({
    [`tenant:${tenant.id}`]: `${1_000_000_000 - 3 * answered} 0 ${3 * answered} 0`,
  });
}, 90_000);
