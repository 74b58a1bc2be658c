import { randomBytes } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { type AppOptions, createApp } from '../../src/app/create-app.js';
import { partitionOfTenant } from '../../src/redis/keyspace.js';
import { readJson, stringifyJson } from '../../src/wire/exact-json.js';
import { balanceProblems } from './balance-rules.js';
import { send } from './send.js';
import { isOfExtensions, sdkProblems, unexplainedMcpProblems } from './sdk-rules.js';
import { contractProblems } from './spec/index.js';
import { configOf, type Settings } from './settings.js';
import { sharedStoreUrl } from './store.js';

export const ADMIN_API_KEY = 'test-admin-key-0123456789';
export const WEBHOOK_SECRET_ENCRYPTION_KEY = '5e'.repeat(32);

/* eslint-disable-next-line @typescript-eslint/no-explicit-any -- the shape of a response is what the tests are about */
export type Json = any;

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly body: Json;
}

export interface Call {
  readonly body?: unknown;
  /** Sent verbatim instead of `body`. */
  readonly raw?: string;
  readonly key?: string | undefined;
  readonly headers?: Record<string, string>;
  /** Whether the caller uses the extensions of v0.1.26. */
  readonly extended?: boolean;
}

/** A tenant for one test, with a key that has all permissions of a tenant. */
export interface TestTenant {
  readonly id: string;
  readonly key: string;
}

const PARTITIONS = 64;
const UNUSED_AFTER_MS = 2000;
const usedPartitions = new Set<number>();

/** Consecutive ids in a test file belong to different partitions, until each partition has one. */
export function newTenantId(): string {
  if (usedPartitions.size === PARTITIONS) {
    usedPartitions.clear();
  }
  for (;;) {
    const id = `t-${randomBytes(6).toString('hex')}`;
    const partition = partitionOfTenant(id, PARTITIONS);
    if (!usedPartitions.has(partition)) {
      usedPartitions.add(partition);
      return id;
    }
  }
}

/** Sends HTTP requests to an instance, wherever it runs. */
export class HoldfastClient {
  constructor(readonly url: string) {}

  /**
   * Sends a request, and checks the response against the protocol's documents and against what its clients
   * require; see `spec` and `sdk-rules`.
   */
  async call(
    method: string,
    path: string,
    { body, raw, key, headers = {}, extended = false }: Call = {},
  ): Promise<Answer> {
    const payload = raw ?? (body === undefined ? undefined : stringifyJson(body));
    const requestHeaders = new Headers({
      ...(payload === undefined ? {} : { 'content-type': 'application/json' }),
      ...(key === undefined ? {} : { 'x-cycles-api-key': key }),
      ...headers,
    });
    const received = await send(this.url + path, { method, headers: requestHeaders, body: payload });
    const { headers: answerHeaders, text } = received;
    const json = answerHeaders.get('content-type')?.includes('json') === true && text !== '';
    const answer = { ...received, body: json ? readJson(text) : undefined };
    const problems = [
      ...contractProblems({ method, path, requestHeaders, requestBody: payload, ...answer }),
      ...[
        ...sdkProblems(method, path, answer.status, answer.body),
        ...unexplainedMcpProblems(method, path, answer.status, answer.body),
      ].filter((problem) => !extended || !isOfExtensions(problem)),
      ...balanceProblems(answer.body),
    ];
    if (problems.length > 0) {
      throw new Error(
        `${method} ${path} broke the contract: ${problems.join('; ')}\n${answer.status} ${text}`,
      );
    }
    return answer;
  }

  admin(method: string, path: string, body?: unknown): Promise<Answer> {
    return this.call(method, path, { body, headers: { 'x-admin-api-key': ADMIN_API_KEY } });
  }

  async createTenant(settings: Record<string, unknown> = {}): Promise<TestTenant> {
    const id = newTenantId();
    expectStatus(
      await this.admin('POST', '/v1/admin/tenants', { tenant_id: id, name: id, ...settings }),
      201,
    );
    return { id, key: await this.createKey(id) };
  }

  async createKey(tenantId: string, settings: Record<string, unknown> = {}): Promise<string> {
    const answer = await this.admin('POST', '/v1/admin/api-keys', {
      tenant_id: tenantId,
      name: 'test',
      ...settings,
    });
    return expectStatus(answer, 201).key_secret as string;
  }

  /** Creates a budget at `tenant:<id>` followed by `below`, e.g. `/workspace:prod`. */
  async createBudget(
    tenant: TestTenant,
    below: string,
    allocated: bigint | number,
    more: Record<string, unknown> = {},
  ): Promise<void> {
    const unit = (more['unit'] as string | undefined) ?? 'TOKENS';
    const answer = await this.admin('POST', '/v1/admin/budgets', {
      tenant_id: tenant.id,
      scope: `tenant:${tenant.id}${below}`,
      unit,
      allocated: { unit, amount: allocated },
      ...more,
    });
    expectStatus(answer, 201);
  }

  /** A tenant with a budget of tokens at its root. */
  async fundedTenant(
    allocated: bigint | number = 1000,
    settings: Record<string, unknown> = {},
    budget: Record<string, unknown> = {},
  ): Promise<TestTenant> {
    const tenant = await this.createTenant(settings);
    await this.createBudget(tenant, '', allocated, budget);
    return tenant;
  }

  /** A reserve that must be admitted. @returns the id of the reservation */
  async hold(
    tenant: TestTenant,
    amount: bigint | number,
    more: Record<string, unknown> = {},
  ): Promise<string> {
    return expectStatus(await this.reserve(tenant, amount, more), 200).reservation_id as string;
  }

  reserve(tenant: TestTenant, amount: bigint | number, more: Record<string, unknown> = {}): Promise<Answer> {
    return this.call('POST', '/v1/reservations', {
      key: tenant.key,
      body: reserveBody(tenant, amount, more),
    });
  }

  settle(
    tenant: TestTenant,
    verb: 'commit' | 'release' | 'extend',
    reservationId: string,
    body: Record<string, unknown> = {},
  ): Promise<Answer> {
    const path = `/v1/reservations/${reservationId}/${verb}`;
    return this.call('POST', path, { key: tenant.key, body: { idempotency_key: newKey(), ...body } });
  }

  commit(
    tenant: TestTenant,
    reservationId: string,
    amount: bigint | number,
    more: Record<string, unknown> = {},
  ): Promise<Answer> {
    return this.settle(tenant, 'commit', reservationId, { actual: { unit: 'TOKENS', amount }, ...more });
  }

  /**
   * The balances of all budgets of the tenant by scope path, each as the text `[remaining, reserved, spent,
   * debt]`.
   */
  async balances(tenant: TestTenant): Promise<Record<string, string>> {
    const answer = await this.call(
      'GET',
      `/v1/balances?tenant=${tenant.id}&include_children=true&limit=200`,
      { key: tenant.key },
    );
    const found: Record<string, string> = {};
    for (const balance of expectStatus(answer, 200).balances as Json[]) {
      const { remaining, reserved, spent, debt } = balance;
      found[balance.scope_path] = [remaining, reserved, spent, debt]
        .map((figure?: Json) => String(figure?.amount ?? 0))
        .join(' ');
    }
    return found;
  }

  /** The sum of a metric's samples whose labels include those given; 0 if there are none. */
  async metric(name: string, labels: Record<string, string> = {}): Promise<number> {
    const { text } = await this.call('GET', '/metrics', { headers: { 'x-admin-api-key': ADMIN_API_KEY } });
    return text
      .split('\n')
      .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
      .filter((line) =>
        Object.entries(labels).every(([label, value]) => line.includes(`${label}="${value}"`)),
      )
      .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
  }
}

/** An instance of the real application on a free loopback port. */
export class Holdfast extends HoldfastClient {
  private constructor(
    readonly app: NestFastifyApplication,
    url: string,
  ) {
    super(url);
  }

  /**
   * By default only the `api` role, and no records of activity: scheduled work must not run by itself in
   * tests, which compare everything that Redis holds. Lists need not yield Redis to other requests, because
   * the tests wait for them. Tests present many wrong keys.
   */
  static async start(settings: Settings = {}, options: AppOptions = {}): Promise<Holdfast> {
    const redis = Object.keys(settings).some((name) => name.startsWith('REDIS_'))
      ? {}
      : { REDIS_URL: sharedStoreUrl() };
    const config = configOf({
      HOLDFAST_ROLES: 'api',
      LOG_LEVEL: 'silent',
      queryTimeShare: 100,
      RECORD_ACTIVITY: 'false',
      RATE_LIMIT_AUTH_FAILURES_PER_MINUTE: '0',
      ADMIN_API_KEY,
      WEBHOOK_SECRET_ENCRYPTION_KEY,
      ...redis,
      ...settings,
    });
    const app = await createApp(config, options);
    await app.listen(0, '127.0.0.1');
    const { port } = app.getHttpServer().address() as AddressInfo;
    return new Holdfast(app, `http://127.0.0.1:${port}`);
  }

  async stop(): Promise<void> {
    const server = this.app.getHttpServer();
    // A client may have opened a connection that it never used. It does not count as idle, so the server
    // would wait for it.
    const cut = setTimeout(() => server.closeAllConnections(), UNUSED_AFTER_MS);
    await this.app.close();
    clearTimeout(cut);
  }
}

export const newKey = (): string => `k-${randomBytes(8).toString('hex')}`;

export function reserveBody(
  tenant: TestTenant,
  amount: bigint | number,
  more: Record<string, unknown> = {},
): Record<string, unknown> {
  return {
    idempotency_key: newKey(),
    subject: { tenant: tenant.id },
    action: { kind: 'llm.completion', name: 'test-model' },
    estimate: { unit: 'TOKENS', amount },
    ...more,
  };
}

/** The body of a response that must have this status; a failure shows the whole response. */
export function expectStatus(answer: Answer, status: number): Json {
  if (answer.status !== status) {
    throw new Error(`expected ${status}, got ${answer.status}: ${answer.text}`);
  }
  return answer.body;
}

/** The body of a refusal in the protocol's error form. */
export function expectRefusal(answer: Answer, status: number, code: string): Json {
  const body = expectStatus(answer, status);
  if (
    body.error !== code ||
    typeof body.message !== 'string' ||
    body.request_id !== answer.headers.get('x-request-id')
  ) {
    throw new Error(`expected ${status} ${code} in the protocol's error form, got ${answer.text}`);
  }
  return body;
}
