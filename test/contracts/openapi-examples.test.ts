import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { generateEvidenceKeys } from '../../src/config/evidence-keys.js';
import { CONTENTS } from '../../src/http/openapi/contents.js';
import { reservationKey, tagOfReservationId } from '../../src/redis/keyspace.js';
import { DnsServer } from '../support/dns-server.js';
import { docBlocks } from '../support/doc-blocks.js';
import { eventually } from '../support/eventually.js';
import { ADMIN_API_KEY, expectStatus, Holdfast, type Answer, type Json } from '../support/holdfast.js';
import {
  type DescribedOperation,
  OpenApiExamples,
  type ServedDocument,
} from '../support/openapi-examples.js';
import { startRedis, type RedisServer } from '../support/redis-server.js';
import { escapePart, problemsOf, SchemaBook } from '../support/spec/index.js';
import { allowLoopback, startDispatcher, subscribe } from '../webhooks/dispatching.js';

/** The keys that a request carries, if its operation accepts them. */
type Keys = readonly ('ApiKeyAuth' | 'AdminKeyAuth')[];

/** The requests that the document's description tells a reader to send first. */
const FIRST = ['createTenant', 'createApiKey', 'createBudget'];

/**
 * The operation whose example a reader must repeat before this one, because the previous subject has been
 * settled, revoked or removed by then.
 */
const BEFORE: Readonly<Record<string, string>> = {
  releaseReservation: 'createReservation',
  extendReservation: 'createReservation',
  revokeApiKey: 'createApiKey',
  updateApiKey: 'createApiKey',
};

/** The counters of changes on the runtime plane. All others are counted together, by operation. */
const RUNTIME_COUNTERS: Readonly<Record<string, string>> = {
  createReservation: 'cycles_reservations_reserve_total',
  createReservationSet: 'holdfast_reservation_sets_total',
  commitReservation: 'cycles_reservations_commit_total',
  releaseReservation: 'cycles_reservations_release_total',
  extendReservation: 'cycles_reservations_extend_total',
  decide: 'holdfast_decisions_total',
  createEvent: 'cycles_events_total',
  refundReservation: 'holdfast_refunds_total',
  refundEvent: 'holdfast_refunds_total',
  sendBatch: 'holdfast_batch_operations_total',
};

/** Sends the examples of the served document to the instance that serves it. */
class Reader {
  /** The last value in a response for each id member; paths are filled from them. */
  private readonly ids = new Map<string, string>();
  private readonly examples: OpenApiExamples;
  private readonly book: SchemaBook;
  private apiKey = '';
  private sent = 0;

  constructor(
    private readonly holdfast: Holdfast,
    document: ServedDocument,
    private readonly keys: Keys,
  ) {
    this.examples = new OpenApiExamples(document);
    this.book = new SchemaBook({ own: document });
  }

  idOf(name: string): string {
    return this.ids.get(name) as string;
  }

  /** What is wrong with an operation's example, or undefined if it works. */
  async problemOf(id: string): Promise<string | undefined> {
    const { template, method, operation } = this.examples.operation(id);
    const before = await this.counted(id);
    const answer = await this.send(id);
    if (method !== 'get' && (await this.counted(id)) !== before + 1) {
      return `${id} changes something, and is not counted`;
    }
    const said = `${answer.status} ${answer.text.slice(0, 300)}`;
    const response = operation.responses[answer.status];
    if (answer.status >= 300 || response === undefined) {
      return `${id} gets the response ${said}`;
    }
    const type = answer.headers.get('content-type')?.split(';')[0] ?? '';
    if (response.content?.[type] === undefined) {
      return answer.status === 204 && answer.text === '' ? undefined : `${id} answers ${type}: ${said}`;
    }
    const pointer = `#/paths/${escapePart(template)}/${method}/responses/${answer.status}/content/application~1json/schema`;
    const problems =
      type === 'application/json'
        ? problemsOf(this.book.validatorOf('own', pointer), JSON.parse(answer.text))
        : [];
    return problems.length === 0 ? undefined : `${id} answers ${problems.join(', ')}: ${said}`;
  }

  /** How often the operation succeeded, by its counter. */
  private counted(id: string): Promise<number> {
    const counter = RUNTIME_COUNTERS[id];
    return counter === undefined
      ? this.holdfast.metric('holdfast_governance_changes_total', { operation: id, outcome: 'OK' })
      : // Each operation of the batch counts, and one of them is an event.
        this.holdfast.metric(counter, id === 'sendBatch' ? { op: 'event' } : {});
  }

  /** Sends an example. A repetition gets its own idempotency key, as the description says. */
  async send(id: string, again = false): Promise<Answer> {
    const { method, path, body } = this.examples.request(id, (name) => this.idOf(name));
    this.sent += 1;
    const key = again && body?.['idempotency_key'] !== undefined ? `again-${this.sent}` : undefined;
    const answer = await this.holdfast.call(method, path, {
      // One of the examples reserves in a set.
      extended: true,
      headers: this.headersOf(this.examples.operation(id).operation, path, body),
      body: key === undefined ? body : { ...body, idempotency_key: key },
    });
    this.remember(answer.body);
    if (id === 'createApiKey' && this.apiKey === '') {
      this.apiKey = answer.body.key_secret as string;
    }
    return answer;
  }

  /** If both keys are accepted, an example that names the tenant uses the admin key. */
  private headersOf(
    { security = [] }: DescribedOperation,
    url: string,
    body: object = {},
  ): Record<string, string> {
    const taken = security.flatMap((scheme) => Object.keys(scheme));
    const wanted = this.keys.filter((key) => taken.includes(key));
    const admin = taken.includes('AdminKeyAuth') && (/[?&]tenant(_id)?=/.test(url) || 'tenant_id' in body);
    const schemes = wanted.length === 0 ? taken : admin ? [...wanted, 'AdminKeyAuth'] : wanted;
    return {
      ...(schemes.includes('ApiKeyAuth') ? { 'x-cycles-api-key': this.apiKey } : {}),
      ...(schemes.includes('AdminKeyAuth') ? { 'x-admin-api-key': ADMIN_API_KEY } : {}),
    };
  }

  /** For lists, the first entry counts, because a reader would look at it next. */
  remember(value: unknown): void {
    if (Array.isArray(value)) {
      this.remember(value[0]);
    } else if (typeof value === 'object' && value !== null) {
      for (const [name, entry] of Object.entries(value)) {
        if (name.endsWith('_id') && typeof entry === 'string') {
          this.ids.set(name, entry);
        } else {
          this.remember(entry);
        }
      }
    }
  }
}

let server: RedisServer;
let redis: Redis;
let dns: DnsServer;
let holdfast: Holdfast;
let archive: string;

beforeEach(async () => {
  archive = await mkdtemp(join(tmpdir(), 'holdfast-examples-'));
  [server, dns] = await Promise.all([startRedis(), DnsServer.start()]);
  redis = new Redis(server.url);
  // The example's host resolves to this machine, which an operator has allowed. Nothing listens on its port.
  dns.answers.set('hooks.example.com', ['127.0.0.1']);
  holdfast = await startDispatcher({
    REDIS_URL: server.url,
    HOLDFAST_TEST_CLOCK: 'true',
    WEBHOOK_DNS_SERVERS: dns.address,
    ARCHIVE_DIR: archive,
    EVIDENCE_SERVER_ID: 'https://cycles.example.com/v1',
    EVIDENCE_KEYS: generateEvidenceKeys(0),
  });
  await allowLoopback(holdfast);
});

afterEach(async () => {
  await holdfast.stop();
  redis.disconnect();
  dns.stop();
  await server.stop();
  await rm(archive, { recursive: true });
});

/** What README's first session creates before its key. */
async function firstSession(): Promise<void> {
  const [{ code } = { code: '' }] = docBlocks('README.md', 'A first session');
  const creates = [...code.matchAll(/"\$URL(\/v1\/admin\/(?:tenants|budgets))"[^']*'([^']+)'/g)];
  expect(creates).toHaveLength(2);
  for (const [, path = '', body = ''] of creates) {
    expectStatus(await holdfast.admin('POST', path, JSON.parse(body)), 201);
  }
}

/** Readers cannot bring a reservation into quarantine; damaged data can. */
async function quarantine(reader: Reader): Promise<() => Promise<unknown>> {
  expectStatus(await reader.send('createReservation', true), 200);
  const id = reader.idOf('reservation_id');
  const key = reservationKey(tagOfReservationId(id, 64) as string, id);
  const amount = (await redis.hget(key, 'am')) as string;
  await redis.hset(key, 'am', 'damaged');
  expectStatus(await reader.send('commitReservation', true), 503);
  return () => redis.hset(key, 'am', amount);
}

/** The example is about a run under a policy with a quota, which no earlier example creates. */
async function count(): Promise<void> {
  const quota = { action_kind: 'llm.completion', max_calls: 10, window: 'per_run' };
  const policy = {
    tenant_id: 'acme',
    name: 'Ten calls a run',
    scope_pattern: 'tenant:acme/app:support-chat',
    priority: 100,
    action_quotas: [quota],
  };
  const made = expectStatus(await holdfast.admin('POST', '/v1/admin/policies', policy), 201);
  const { key_secret: key } = expectStatus(
    await holdfast.admin('POST', '/v1/admin/api-keys', { tenant_id: 'acme', name: 'an agent' }),
    201,
  );
  const body = {
    idempotency_key: 'run-4711-1',
    subject: { tenant: 'acme', app: 'support-chat', dimensions: { run_id: 'run-4711' } },
    action: { kind: 'llm.completion', name: 'gpt-4.1' },
    estimate: { unit: 'TOKENS', amount: 1 },
  };
  expectStatus(await holdfast.call('POST', '/v1/reservations', { key: key as string, body }), 200);
  const path = `/v1/admin/policies/${made.policy_id}`;
  expectStatus(await holdfast.admin('PATCH', path, { action_quotas: [] }), 200);
}

/** The earlier examples remove their subscriptions, with the deliveries, and block this machine. */
async function deliver(reader: Reader): Promise<void> {
  await allowLoopback(holdfast);
  const tenant = { id: 'acme', key: '' };
  const id = await subscribe(holdfast, tenant, 'https://hooks.example.com/holdfast', {
    event_types: ['budget.funded'],
  });
  expectStatus(await reader.send('fundBudget', true), 200);
  await eventually('there is a delivery', async () => {
    const { deliveries } = expectStatus(
      await holdfast.admin('GET', `/v1/admin/webhooks/${id}/deliveries`),
      200,
    );
    reader.remember(deliveries);
    return (deliveries as Json[]).length > 0;
  });
}

describe('the examples of the document work unchanged, in its order, and each change moves a counter', () => {
  test.each<[string, Keys, readonly string[]]>([
    ["with the tenant's key wherever it is taken", ['ApiKeyAuth'], FIRST],
    ['with the admin key wherever it is taken', ['AdminKeyAuth'], FIRST],
    ['with both keys, as the page sends them', ['ApiKeyAuth', 'AdminKeyAuth'], FIRST],
    ["in the ledger of README's session, which has tenant and budget", ['ApiKeyAuth'], ['createApiKey']],
  ])(
    '%s',
    async (_, keys, first) => {
      if (first !== FIRST) {
        await firstSession();
      }
      const { text } = await holdfast.call('GET', '/openapi.json');
      const reader = new Reader(holdfast, JSON.parse(text) as ServedDocument, keys);
      const problems: (string | undefined)[] = [];
      for (const id of first) {
        problems.push(await reader.problemOf(id));
      }
      let repair: () => Promise<unknown> = () => Promise.resolve();
      for (const id of CONTENTS.flatMap(({ operations }) => operations)) {
        if (FIRST.includes(id)) {
          continue;
        }
        if (BEFORE[id] !== undefined) {
          expect((await reader.send(BEFORE[id], true)).status).toBeLessThan(300);
        } else if (id === 'resetActionQuotaCounter') {
          await count();
        } else if (id === 'getWebhookDelivery') {
          await deliver(reader);
        } else if (id === 'listQuarantine') {
          repair = await quarantine(reader);
        } else if (id === 'decideQuarantined') {
          await repair();
        }
        problems.push(await reader.problemOf(id));
      }
      expect(problems.filter((problem) => problem !== undefined)).toEqual([]);
      // About 130 requests, of which two start DuckDB.
    },
    60_000,
  );
});
