import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { Command } from 'ioredis';
import { generateEvidenceKeys, rotateEvidenceKeys } from '../../src/config/evidence-keys.js';
import { verifyEnvelope } from '../../src/evidence/verification.js';
import { evidenceKey, tagOfEvidenceId } from '../../src/redis/keyspace.js';
import { LIBRARY } from '../../src/redis/script-library.js';
import { RedisService } from '../../src/redis/redis.service.js';
import { shows } from '../compatibility/shows.js';
import { eventually } from '../support/eventually.js';
import {
  type Answer,
  expectRefusal,
  expectStatus,
  Holdfast,
  type Json,
  newKey,
  reserveBody,
  type TestTenant,
} from '../support/holdfast.js';
import type { Settings } from '../support/settings.js';

const EVIDENCE_SERVER_ID = 'https://cycles.example.com/v1';
const KEYS = generateEvidenceKeys(1_700_000_000_000);
const ON = { EVIDENCE_SERVER_ID, EVIDENCE_KEYS: KEYS, rateLimitPublicPerMinute: 0 };

let on: Holdfast;
let off: Holdfast;
let tenant: TestTenant;
const others: Holdfast[] = [];

beforeAll(async () => {
  on = await Holdfast.start(ON);
  off = await Holdfast.start();
  tenant = await on.createTenant();
  await on.createBudget(tenant, '', 1_000_000);
});
afterEach(async () => {
  await Promise.all(others.splice(0).map((other) => other.stop()));
});
afterAll(() => Promise.all([on.stop(), off.stop()]));

async function start(settings: Settings): Promise<Holdfast> {
  const other = await Holdfast.start({ ...ON, ...settings });
  others.push(other);
  return other;
}

const post = (holdfast: Holdfast, path: string, body: unknown, key = tenant.key): Promise<Answer> =>
  holdfast.call('POST', path, { key, body });
const reserve = (holdfast: Holdfast, body: unknown): Promise<Answer> =>
  post(holdfast, '/v1/reservations', body);
const idOf = ({ body }: Answer): string => body.cycles_evidence.evidence_id as string;
const withoutVolatile = ({ body }: Answer): Json => {
  const { remaining_ttl_ms: _, cycles_evidence: __, ...rest } = body;
  return rest;
};

describe('without an identity', () => {
  test('no response has evidence, there are no keys, and an earlier envelope can still be read', async () => {
    shows('key set');
    const body = reserveBody(tenant, 1);
    const answer = await reserve(off, body);
    expect(expectStatus(answer, 200)).not.toHaveProperty('cycles_evidence');
    const denied = await reserve(off, reserveBody(tenant, 10_000_000));
    expect(expectRefusal(denied, 409, 'BUDGET_EXCEEDED')).not.toHaveProperty('cycles_evidence');
    expectRefusal(await off.call('GET', '/v1/.well-known/cycles-jwks.json'), 404, 'NOT_FOUND');
    const id = idOf(await reserve(on, reserveBody(tenant, 1)));
    expect((await off.call('GET', `/v1/evidence/${id}`)).status).toBe(200);
  });

  test('Redis gets the usual calls, and no attested function runs', async () => {
    const functions: string[] = [];
    const { client } = off.app.get(RedisService);
    const sendCommand = client.sendCommand.bind(client) as (...args: unknown[]) => unknown;
    client.sendCommand = ((command: Command, ...to: unknown[]) => {
      if (command.name === 'fcall') {
        functions.push(command.args[0] as string);
      }
      return sendCommand(command, ...to);
    }) as never;
    const { reservation_id: id } = (await reserve(off, reserveBody(tenant, 1))).body;
    await off.commit(tenant, id as string, 1);
    await post(off, '/v1/decide', reserveBody(tenant, 1));
    const nameOf = (script: string): string | undefined => LIBRARY.scripts.get(script)?.functionName;
    // Who calls is known for a second only.
    const ofCaller = ['authenticate', 'note_key_use'].map(nameOf);
    expect(functions.filter((name) => !ofCaller.includes(name))).toEqual(
      ['reserve', 'commit', 'decide'].map(nameOf),
    );
  });

  test('a repetition gets the first outcome, whether evidence was turned on or off in between', async () => {
    for (const [first, second] of [
      [on, off],
      [off, on],
    ] as const) {
      const body = reserveBody(tenant, 1);
      const reserved = await reserve(first, body);
      const path = `/v1/reservations/${reserved.body.reservation_id}/commit`;
      const commit = { idempotency_key: newKey(), actual: { unit: 'TOKENS', amount: 1 } };
      const committed = await post(first, path, commit);
      const again = await reserve(second, body);
      expect(withoutVolatile(again)).toEqual(withoutVolatile(reserved));
      const committedAgain = await post(second, path, commit);
      expect(withoutVolatile(committedAgain)).toEqual(withoutVolatile(committed));
      // The time at which an instance without evidence decided is not stored.
      expect(
        [again, committedAgain].filter(({ body: { cycles_evidence: found } }) => found !== undefined),
      ).toEqual([]);
      expectRefusal(await reserve(second, { ...body, ttl_ms: 5000 }), 409, 'IDEMPOTENCY_MISMATCH');
      expectRefusal(await reserve(first, { ...body, ttl_ms: 5000 }), 409, 'IDEMPOTENCY_MISMATCH');
    }
  });
});

test('many identical requests at once have one outcome and one envelope', async () => {
  const issued = (): Promise<number> =>
    on.metric('holdfast_evidence_issued_total', { artifact_type: 'decide' });
  const before = await issued();
  const body = reserveBody(tenant, 1);
  const answers = await Promise.all(Array.from({ length: 20 }, () => post(on, '/v1/decide', body)));
  expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
  expect(idOf(answers[0] as Answer)).toMatch(/^[0-9a-f]{64}$/);
  expect(await issued()).toBe(before + 1);
});

test('many requests at once that wait for one run of the script have an envelope each, with the same instant', async () => {
  const answers = await Promise.all(Array.from({ length: 40 }, () => reserve(on, reserveBody(tenant, 1))));
  expect(new Set(answers.map(idOf)).size).toBe(40);
  for (const answer of answers.slice(0, 5)) {
    const { text, body } = await on.call('GET', `/v1/evidence/${idOf(answer)}`);
    expect(verifyEnvelope(text, { kind: 'none' }).disposition).toBe('binding_only');
    expect(body.payload.reserve.response.reservation_id).toBe(answer.body.reservation_id);
  }
});

test('from a rotation on the new key signs; envelopes that the old one signed stay, are replayed and can be verified', async () => {
  shows('key set');
  const body = reserveBody(tenant, 1);
  const old = await reserve(on, body);
  const atMs = new Date().getTime() + 300;
  const rotated = await start({ EVIDENCE_KEYS: rotateEvidenceKeys(KEYS, atMs) });
  const keys = (): Promise<Answer> => rotated.call('GET', '/v1/.well-known/cycles-jwks.json');
  await eventually('the first key is retired', async () => (await keys()).body.keys[0].status === 'retired');
  const late = await reserve(rotated, reserveBody(tenant, 1));
  const again = await reserve(rotated, body);
  expect(again.body.cycles_evidence).toEqual(old.body.cycles_evidence);
  const keySet = await keys();
  const [first, second] = keySet.body.keys as Json[];
  expect([first.cycles_exp_ms, second.cycles_nbf_ms, second.status]).toEqual([atMs, atMs, 'active']);
  for (const [answer, key] of [
    [old, first],
    [late, second],
  ] as const) {
    const { text } = await on.call('GET', `/v1/evidence/${idOf(answer)}`);
    const signer = Buffer.from(key.x as string, 'base64url').toString('hex');
    expect(verifyEnvelope(text, { kind: 'found', text: keySet.text }, signer)).toMatchObject({
      disposition: 'authentic',
      pinned: true,
    });
  }
});

test('without the private part of the key at that time, a repetition refers only to stored evidence', async () => {
  const body = reserveBody(tenant, 1);
  const first = await reserve(on, body);
  const { keys } = JSON.parse(rotateEvidenceKeys(KEYS, new Date().getTime() + 1)) as { keys: Json[] };
  delete keys[0].d;
  const forgetful = await start({ EVIDENCE_KEYS: JSON.stringify({ keys }) });
  expect((await reserve(forgetful, body)).body.cycles_evidence).toEqual(first.body.cycles_evidence);
  const { client, partitions } = on.app.get(RedisService);
  await client.del(evidenceKey(tagOfEvidenceId(idOf(first), partitions), idOf(first)));
  const failed = (): Promise<number> =>
    forgetful.metric('cycles_evidence_emit_failed_total', { artifact_type: 'reserve', reason: 'signing' });
  const before = await failed();
  expect(expectStatus(await reserve(forgetful, body), 200)).not.toHaveProperty('cycles_evidence');
  expect(await failed()).toBe(before + 1);
});

test('when no key can sign, responses have no evidence, are counted, and readiness is red', async () => {
  const early = await start({ EVIDENCE_KEYS: generateEvidenceKeys(new Date().getTime() + 3_600_000) });
  const failed = (): Promise<number> =>
    early.metric('cycles_evidence_emit_failed_total', { reason: 'signing' });
  const before = await failed();
  expect(expectStatus(await reserve(early, reserveBody(tenant, 1)), 200)).not.toHaveProperty(
    'cycles_evidence',
  );
  expect(await failed()).toBe(before + 1);
  const ready = await early.call('GET', '/health/ready');
  expect(ready.status).toBe(503);
  expect(ready.body.details.evidence).toEqual({ status: 'down', problem: 'no key covers the time of issue' });
  expect((await on.call('GET', '/health/ready')).body.details.evidence).toMatchObject({ status: 'up' });
});

test("readiness follows the clock of Redis, whatever the instance's own clock says", async () => {
  const notBeforeMs = new Date().getTime() + 3_600_000;
  const early = await start({ EVIDENCE_KEYS: generateEvidenceKeys(notBeforeMs) });
  jest.spyOn(Date.prototype, 'getTime').mockReturnValue(notBeforeMs + 1000);
  const ready = await early.call('GET', '/health/ready');
  jest.restoreAllMocks();
  expect(ready.body.details.evidence).toEqual({
    status: 'down',
    problem: 'no key covers the time of issue',
  });
});

test('readiness is green again once a key covers the time, without a further outcome', async () => {
  const early = await start({ EVIDENCE_KEYS: generateEvidenceKeys(new Date().getTime() + 3_600_000) });
  expect((await reserve(early, reserveBody(tenant, 1))).body).not.toHaveProperty('cycles_evidence');
  const status = async (): Promise<string> =>
    (await early.call('GET', '/health/ready')).body.details.evidence.status;
  expect(await status()).toBe('down');
  const { clock } = early.app.get(RedisService);
  const later = jest.spyOn(clock, 'nowMs').mockReturnValue(clock.nowMs() + 3_700_000);
  await eventually('the key covers the time', async () => (await status()) === 'up');
  later.mockRestore();
});

test('a tenant at its limit on stored bytes gets decisions and denials without evidence, and still settles with it', async () => {
  const full = await on.fundedTenant(1000);
  const held = await post(on, '/v1/reservations', reserveBody(full, 1), full.key);
  expectStatus(held, 200);
  const limits = (): Promise<Answer> => on.admin('GET', `/ops/tenants/${full.id}/limits`);
  const used = (await limits()).body.limits.stored_bytes.used as number;
  const envelope = await on.call('GET', `/v1/evidence/${idOf(held)}`);
  // A reservation, possibly an event, and the bytes of the envelope.
  expect(used).toBeGreaterThan(600 + envelope.text.length);
  expectStatus(await on.admin('PUT', `/ops/tenants/${full.id}/limits`, { stored_bytes: used + 10 }), 200);
  const failed = (artifact: string): Promise<number> =>
    on.metric('cycles_evidence_emit_failed_total', { artifact_type: artifact, reason: 'limit' });
  const before = [await failed('decide'), await failed('error')];
  const decision = reserveBody(full, 1);
  const decided = await post(on, '/v1/decide', decision, full.key);
  expect(expectStatus(decided, 200)).not.toHaveProperty('cycles_evidence');
  const denied = await post(on, '/v1/reservations', reserveBody(full, 5000), full.key);
  expect(expectRefusal(denied, 409, 'BUDGET_EXCEEDED')).not.toHaveProperty('cycles_evidence');
  expect([await failed('decide'), await failed('error')]).toEqual(before.map((count) => count + 1));
  const repeated = await post(on, '/v1/decide', decision, full.key);
  expect(repeated.text).toBe(decided.text);
  expect(await failed('decide')).toBe((before[0] as number) + 2);
  expectRefusal(await post(on, '/v1/reservations', reserveBody(full, 1), full.key), 429, 'LIMIT_EXCEEDED');
  expect((await on.commit(full, held.body.reservation_id as string, 1)).body).toHaveProperty(
    'cycles_evidence',
  );
});

test('a repetition counts a missing envelope, and no other', async () => {
  const owner = await on.fundedTenant(1000);
  const used = async (): Promise<number> =>
    (await on.admin('GET', `/ops/tenants/${owner.id}/limits`)).body.limits.stored_bytes.used as number;
  const issued = (): Promise<number> => on.metric('holdfast_evidence_issued_total');
  const { client, partitions } = on.app.get(RedisService);
  for (const path of ['/v1/decide', '/v1/reservations']) {
    const body = reserveBody(owner, 1);
    const first = await post(on, path, body, owner.key);
    const size = (await on.call('GET', `/v1/evidence/${idOf(first)}`)).text.length;
    const [bytes, count] = [await used(), await issued()];
    expect(idOf(await post(on, path, body, owner.key))).toBe(idOf(first));
    expect([await used(), await issued()]).toEqual([bytes, count]);
    await client.del(evidenceKey(tagOfEvidenceId(idOf(first), partitions), idOf(first)));
    expect(idOf(await post(on, path, body, owner.key))).toBe(idOf(first));
    expect([await used(), await issued()]).toEqual([bytes + size + 160, count + 1]);
  }
});

test('a reservation does not name an envelope that could not be stored, and its repetition stores and names it', async () => {
  const { client } = on.app.get(RedisService);
  const set = jest.spyOn(client, 'set').mockRejectedValueOnce(new Error('OOM command not allowed'));
  const body = reserveBody(tenant, 1);
  const reserved = await reserve(on, body);
  set.mockRestore();
  const shown = async (): Promise<Json> =>
    (await on.call('GET', `/v1/reservations/${reserved.body.reservation_id}`, { key: tenant.key })).body;
  expect(expectStatus(reserved, 200)).not.toHaveProperty('cycles_evidence');
  expect(await shown()).not.toHaveProperty('evidence');
  const again = await reserve(on, body);
  expect((await shown()).evidence).toEqual({ reserve: again.body.cycles_evidence });
  expect((await on.call('GET', `/v1/evidence/${idOf(again)}`)).status).toBe(200);
});
