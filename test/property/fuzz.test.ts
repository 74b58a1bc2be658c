import { rollOverKeys } from '../support/governance-client.js';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { mkdtempSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import fc from 'fast-check';
import { seedFrom } from '../../scripts/seed.mjs';
import { PERMISSIONS } from '../../src/auth/permissions.js';
import { RedisService, tagOfTenant } from '../../src/redis/index.js';
import { createLogger } from '../../src/telemetry/logger.js';
import {
  ADMIN_API_KEY,
  expectStatus,
  Holdfast,
  reserveBody,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';
import {
  exchange,
  judge,
  Known,
  LedgerWatch,
  nameOf,
  operationsOf,
  requestsTo,
  type Draft,
  type FuzzRequest,
  type Operation,
} from '../support/openapi-fuzz/index.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';
import type { SpecDocument } from '../support/spec/index.js';

/**
 * Requests to every operation of our own OpenAPI document, from valid ones to some that only an attacker
 * would send. The seed is printed; to send the same requests again: FUZZ_SEED=<seed> npm run jest --
 * test/property/fuzz.test.ts. FUZZ_PATH=<path> sends only the requests of the world that failed, FUZZ_WORLDS
 * sets the number of worlds, and FUZZ_LENGTH the number of requests in each.
 */
const seed = seedFrom('FUZZ_SEED', 'fuzzed requests');
const worlds = Number(process.env['FUZZ_WORLDS'] ?? 30);
const length = Number(process.env['FUZZ_LENGTH'] ?? 60);
const path = process.env['FUZZ_PATH'];
/** Before one request in this many, the periods and windows of all budgets end. */
const PASS_EVERY = 10;

interface Tally {
  done: number;
  refused: number;
}

const log: Record<string, unknown>[] = [];
const tallies = new Map<string, Tally>();
let redis: RedisServer;
let holdfast: Holdfast;
let watch: LedgerWatch;
let operations: Operation[];

beforeAll(async () => {
  // Otherwise, the service warns.
  redis = await startRedis({ appendonly: true, maxmemory: '2gb' });
  const destination = new Writable({
    write(chunk: Buffer, _encoding, done) {
      log.push(JSON.parse(chunk.toString()) as Record<string, unknown>);
      done();
    },
  });
  // Without an archive, reports are refused with 501. This one is empty.
  const archive = mkdtempSync(join(tmpdir(), 'holdfast-test-archive-'));
  holdfast = await Holdfast.start(
    { REDIS_URL: redis.url, ARCHIVE_DIR: archive },
    { logger: createLogger('warn', destination) },
  );
  watch = new LedgerWatch(redis.url);
  const document = (await holdfast.call('GET', '/openapi.json')).body as SpecDocument;
  operations = operationsOf(document);
});
afterAll(async () => {
  await watch.close();
  await holdfast.stop();
  await redis.stop();
});

interface World {
  readonly known: Known;
  readonly tenant: TestTenant;
}

/**
 * A tenant with budgets, one of them frozen, a credit, a template, a policy, a webhook, an operator, a direct
 * debit, live and ended holds, so that requests find something to act on.
 */
async function newWorld(): Promise<World> {
  await watch.empty();
  const known = new Known();
  const [{ id }, other] = [await holdfast.createTenant(), await holdfast.createTenant()];
  const tenant = { id, key: await holdfast.createKey(id, { permissions: PERMISSIONS }) };
  await holdfast.createBudget(tenant, '', 1_000_000, {
    overdraft_limit: { unit: 'TOKENS', amount: 1000 },
    period_end: new Date(Date.now() + 86_400_000).toISOString(),
    rollover_policy: 'CARRY_FORWARD',
  });
  await holdfast.createBudget(tenant, '/workspace:prod', 500_000);
  await holdfast.createBudget(tenant, '', 1000, { unit: 'CREDITS' });
  const scope = `tenant:${tenant.id}`;
  expectStatus(
    await holdfast.admin('PUT', `/ops/budgets/recurrence?scope=${scope}/workspace:prod&unit=TOKENS`, {
      every: 'month',
      time_zone: 'Europe/Berlin',
    }),
    200,
  );
  const day = { name: 'day', limit: { unit: 'TOKENS', amount: 900_000 }, every: 'day', time_zone: 'UTC' };
  expectStatus(
    await holdfast.admin('PUT', `/ops/budgets/windows?scope=${scope}&unit=TOKENS`, { windows: [day] }),
    200,
  );
  known.learn(
    expectStatus(
      await holdfast.admin('POST', '/v1/admin/policies', {
        tenant_id: tenant.id,
        name: 'p',
        scope_pattern: `${scope}/*`,
      }),
      201,
    ),
  );
  expectStatus(
    await holdfast.admin('PUT', '/v1/admin/config/webhook-security', {
      blocked_cidr_ranges: [],
      allow_http: true,
    }),
    200,
  );
  const subscription = { name: 'hook', url: 'http://127.0.0.1:9/', event_types: ['reservation.expired'] };
  known.learn(
    expectStatus(
      await holdfast.admin('POST', `/v1/admin/webhooks?tenant_id=${tenant.id}`, subscription),
      201,
    ),
  );
  const tokens = (amount: number): Json => ({ unit: 'TOKENS', amount });
  const of = { tenant_id: tenant.id, unit: 'TOKENS' };
  const made: [string, string, Json][] = [
    ['POST', '/ops/operators', { name: 'viewer', role: 'viewer' }],
    [
      'POST',
      '/ops/budgets/credits',
      { ...of, idempotency_key: 'c', scope, name: 'Welcome', amount: tokens(50) },
    ],
    [
      'PUT',
      '/ops/budget-templates/per-app',
      { ...of, scope_pattern: `${scope}/app:*`, allocated: tokens(9) },
    ],
  ];
  for (const [method, to, body] of made) {
    known.learn(expectStatus(await holdfast.admin(method, to, body), 201));
  }
  expectStatus(await holdfast.admin('POST', `/v1/admin/budgets/freeze?scope=${scope}&unit=CREDITS`, {}), 200);
  const { estimate: actual, ...debit } = reserveBody(tenant, 20);
  known.learn(
    expectStatus(
      await holdfast.call('POST', '/v1/events', { key: tenant.key, body: { ...debit, actual } }),
      201,
    ),
  );
  const holds: Json[] = [];
  for (let count = 0; count < 4; count += 1) {
    holds.push(expectStatus(await holdfast.reserve(tenant, 10, { ttl_ms: 3_600_000 }), 200));
  }
  expectStatus(await holdfast.commit(tenant, holds[0].reservation_id, 5), 200);
  known.learn(expectStatus(await holdfast.admin('GET', `/v1/admin/api-keys?tenant_id=${other.id}`), 200));
  known.add('tenant_id', other.id);
  known.add('tenant_id', tenant.id);
  known.add('tenant', tenant.id);
  known.add('workspace', 'prod');
  known.add('scope', scope);
  known.add('scope', `${scope}/workspace:prod`);
  known.add('scope', `${scope}/app:new`);
  known.add('unit', 'TOKENS');
  known.add('file', 'swagger-ui.css');
  holds.forEach((hold) => known.add('reservation_id', hold.reservation_id as string));
  await watch.changes();
  return { known, tenant };
}

/** @param rolls whether a read or a refusal may roll budgets over */
async function send(draft: Draft, { known, tenant }: World, rolls: boolean): Promise<void> {
  const request = draft(known, { api: tenant.key, admin: ADMIN_API_KEY });
  const answer = judge(
    request,
    await exchange(port(), request.bytes, request).catch((error: unknown) => fail(request, String(error))),
  );
  const problems = [...answer.problems];
  const changed = await watch.changes();
  const isRead = request.method === 'GET' || request.method === 'HEAD';
  if (!rolls && changed.length > 0 && (answer.status >= 400 || isRead)) {
    problems.push(`${isRead ? 'a read' : 'a refusal'} changed ${changed.join(', ')}`);
  }
  if (problems.length > 0) {
    fail(
      request,
      `${problems.join('; ')}\nanswer: ${answer.status} ${answer.text.slice(0, 2000)}\nlog: ${JSON.stringify(log.splice(0))}`,
    );
  }
  known.learn(answer.body);
  const tally = tallies.get(nameOf(request.operation)) as Tally;
  tally[answer.status < 400 ? 'done' : 'refused'] += 1;
}

/**
 * Rolls over what no request has rolled over, prolongs windows that have not turned over, and ignores the
 * changes.
 */
async function rollOver({ id }: TestTenant): Promise<void> {
  const { partitions, scripts } = holdfast.app.get(RedisService);
  const tag = tagOfTenant(id, partitions);
  await scripts.call('roll_over_budgets', rollOverKeys(tag), { limit: 100 });
  await watch.prolongWindows();
  await watch.changes();
}

const named = (which: (tally: Tally) => boolean): string[] =>
  [...tallies].filter(([, tally]) => which(tally)).map(([name]) => name);
const port = (): number => (holdfast.app.getHttpServer().address() as AddressInfo).port;

function fail(request: FuzzRequest, why: string): never {
  throw new Error(
    `${why}\nrequest to ${nameOf(request.operation)}: ${JSON.stringify(request.bytes.toString('latin1').slice(0, 4000))}`,
  );
}

/** Plays worlds of requests to these operations. */
async function play(to: readonly Operation[], from: number, count: number): Promise<void> {
  const draft = fc.oneof(...to.map(requestsTo));
  await fc.assert(
    fc.asyncProperty(fc.array(draft, { minLength: length, maxLength: length }), async (drafts) => {
      const world = await newWorld();
      for (const [index, each] of drafts.entries()) {
        const rolls = index % PASS_EVERY === PASS_EVERY - 1;
        if (rolls) {
          await watch.passBoundaries();
        }
        await send(each, world, rolls);
        if (rolls) {
          await rollOver(world.tenant);
        }
      }
      const verdict = expectStatus(await holdfast.admin('GET', `/ops/verify?tenant=${world.tenant.id}`), 200);
      expect(verdict).toMatchObject({ ok: true, drift: [], unreadable: [] });
    }),
    { seed: from, endOnFailure: true, ...(path === undefined ? { numRuns: count } : { numRuns: 1, path }) },
  );
}

test('no request causes a 5xx, a refusal without the error form, a refusal that changes the ledger, or an unexpected error', async () => {
  process.stdout.write(`  ${worlds} worlds of ${length} requests\n`);
  for (const operation of operations) {
    tallies.set(nameOf(operation), { done: 0, refused: 0 });
  }
  await play(operations, seed, worlds);
  const isWhole = path === undefined && worlds * length >= 1800;
  // Chance leaves operations out, or gives them only requests that are refused.
  const left = operations.filter((one) => tallies.get(nameOf(one))?.done === 0);
  if (isWhole && left.length > 0) {
    process.stdout.write(`  one more, with seed ${seed + 1}, only of ${left.map(nameOf).join(', ')}\n`);
    await play(left, seed + 1, 1);
  }
  expect(log).toEqual([]);
  if (isWhole) {
    // If requests never reached an operation, or none ever succeeded, the test would show nothing about it.
    expect(named(({ done, refused }) => done + refused === 0)).toEqual([]);
    expect(named(({ done }) => done === 0).length).toBeLessThan(operations.length / 4);
  }
}, 3_600_000);
