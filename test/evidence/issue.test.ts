import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { generateEvidenceKeys } from '../../src/config/evidence-keys.js';
import { verifyEnvelope } from '../../src/evidence/verification.js';
import { RecordJanitor } from '../../src/retention/record-janitor.js';
import { evidenceKey, tagOfEvidenceId, tagOfTenant, tenantKey } from '../../src/redis/keyspace.js';
import { RedisService } from '../../src/redis/redis.service.js';
import { canonicalJson } from '../../src/wire/json.js';
import { shows } from '../compatibility/shows.js';
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
import { commitOf, releaseOf, reserveOf, resultsOf } from '../support/batches.js';
import { envelopeProblems } from '../support/spec/index.js';

const SERVER_ID = 'https://cycles.example.com/v1';
const SETTINGS = {
  EVIDENCE_SERVER_ID: SERVER_ID,
  EVIDENCE_KEYS: generateEvidenceKeys(1_700_000_000_000),
  rateLimitPublicPerMinute: 0,
};
const TRACE_ID = '4bf92f3577b34da6a3ce929d0e0e4736';

let holdfast: Holdfast;
let tenant: TestTenant;

beforeAll(async () => {
  holdfast = await Holdfast.start(SETTINGS);
  tenant = await holdfast.createTenant();
  await holdfast.createBudget(tenant, '', 1_000_000);
});
afterAll(() => holdfast.stop());

const store = (): RedisService => holdfast.app.get(RedisService);
const keyOf = (id: string): string => evidenceKey(tagOfEvidenceId(id, store().partitions), id);
const get = (path: string): Promise<Answer> => holdfast.call('GET', path);

/**
 * The envelope that a response refers to, verified against the server's own keys and the protocol's schema.
 */
async function evidenceOf({ body }: Answer): Promise<Json> {
  const { evidence_id: id, cycles_evidence_url: url } = body.cycles_evidence;
  expect(url).toBe(`${SERVER_ID}/evidence/${id}`);
  const answer = await get(`/v1/evidence/${id}`);
  expectStatus(answer, 200);
  const keys = await get('/v1/.well-known/cycles-jwks.json');
  expect(verifyEnvelope(answer.text, { kind: 'found', text: keys.text })).toMatchObject({
    disposition: 'authentic',
  });
  expect(envelopeProblems(answer.text)).toEqual([]);
  expect(answer.body.evidence_id).toBe(id);
  return answer.body;
}

/** The part of a response that an envelope attests: everything except what only describes the transport. */
function attested({ body }: Answer): Json {
  const { cycles_evidence: _, remaining_ttl_ms: __, ...response } = body;
  return response;
}

const call = (
  path: string,
  body: unknown,
  more: { key?: string; extended?: boolean } = {},
): Promise<Answer> =>
  holdfast.call('POST', path, { key: tenant.key, body, ...more, headers: { 'x-cycles-trace-id': TRACE_ID } });

test('a key can opt out of references, in answers and refusals, and back in; evidence is issued all the same', async () => {
  const key = await holdfast.createKey(tenant.id, { metadata: { evidence_references: false } });
  const keys = async (): Promise<Json[]> =>
    expectStatus(await holdfast.admin('GET', `/v1/admin/api-keys?tenant_id=${tenant.id}`), 200).keys;
  const [{ key_id: keyId }] = (await keys()).filter(
    ({ metadata }) => metadata?.evidence_references === false,
  );
  const issued = await holdfast.metric('holdfast_evidence_issued_total');
  const ask = async (): Promise<Json[]> => [
    expectStatus(await call('/v1/reservations', reserveBody(tenant, 9), { key }), 200),
    expectStatus(await call('/v1/decide', reserveBody(tenant, 9), { key }), 200),
    expectRefusal(
      await call('/v1/reservations', reserveBody(tenant, 9_000_000), { key }),
      409,
      'BUDGET_EXCEEDED',
    ),
  ];
  const bodies = await ask();
  for (const body of bodies) {
    expect(body).not.toHaveProperty('cycles_evidence');
  }
  const path = `/v1/reservations/${bodies[0].reservation_id}`;
  expect(expectStatus(await holdfast.call('GET', path, { key }), 200)).not.toHaveProperty('evidence');
  expect(expectStatus(await holdfast.admin('GET', path), 200)).toHaveProperty('evidence.reserve');
  expect(await holdfast.metric('holdfast_evidence_issued_total')).toBe(issued + 3);
  expectStatus(await holdfast.admin('PATCH', `/v1/admin/api-keys/${keyId}`, { metadata: {} }), 200);
  for (const body of await ask()) {
    expect(body).toHaveProperty('cycles_evidence');
  }
});

describe('a reserve', () => {
  test('has signed evidence of the request and the response, which anybody can get', async () => {
    shows('evidence', 'getEvidence', 'createReservation');
    const body = reserveBody(tenant, 9, { metadata: { z: 9_007_199_254_740_993n, a: '"evidence_id":""' } });
    const answer = await call('/v1/reservations', body);
    expectStatus(answer, 200);
    const envelope = await evidenceOf(answer);
    expect(envelope).toMatchObject({
      artifact_type: 'reserve',
      server_id: SERVER_ID,
      trace_id: TRACE_ID,
      payload: { reserve: { request: body, response: attested(answer) } },
    });
    expect(envelope.issued_at_ms + 60_000).toBe(answer.body.expires_at_ms);
  });

  test('is replayed with the same reference and bytes, and no envelope is issued again', async () => {
    const body = reserveBody(tenant, 9);
    const first = await call('/v1/reservations', body);
    const { text } = await get(`/v1/evidence/${first.body.cycles_evidence.evidence_id}`);
    const issued = await holdfast.metric('holdfast_evidence_issued_total', { artifact_type: 'reserve' });
    const again = await holdfast.call('POST', '/v1/reservations', { key: tenant.key, body });
    expect(attested(again)).toEqual(attested(first));
    expect(again.body.cycles_evidence).toEqual(first.body.cycles_evidence);
    expect((await get(`/v1/evidence/${first.body.cycles_evidence.evidence_id}`)).text).toBe(text);
    expect(await holdfast.metric('holdfast_evidence_issued_total', { artifact_type: 'reserve' })).toBe(
      issued,
    );
  });

  test('whose envelope was lost between the script and the store gets the same one when it is repeated', async () => {
    const body = reserveBody(tenant, 9);
    const first = await call('/v1/reservations', body);
    const id = first.body.cycles_evidence.evidence_id as string;
    const { text } = await get(`/v1/evidence/${id}`);
    await store().client.del(keyOf(id));
    expectRefusal(await get(`/v1/evidence/${id}`), 404, 'NOT_FOUND');
    expect((await call('/v1/reservations', body)).body.cycles_evidence.evidence_id).toBe(id);
    expect((await get(`/v1/evidence/${id}`)).text).toBe(text);
  });

  test('as a dry run has evidence that it would be granted or denied, and replays it', async () => {
    shows('evidence of denials');
    for (const [amount, decision] of [
      [1, 'ALLOW'],
      [10_000_000, 'DENY'],
    ] as const) {
      const body = reserveBody(tenant, amount, { dry_run: true });
      const answer = await call('/v1/reservations', body);
      const envelope = await evidenceOf(answer);
      expect(envelope.artifact_type).toBe('reserve');
      expect(envelope.payload.reserve).toEqual({ request: body, response: attested(answer) });
      expect(envelope.payload.reserve.response.decision).toBe(decision);
      expect((await call('/v1/reservations', body)).text).toBe(answer.text);
    }
  });

  test('in observe mode has evidence if the request is a dry run, and otherwise none, because there is no form for it', async () => {
    for (const [mode, dryRun, isAttested] of [
      ['OBSERVE', true, true],
      ['OBSERVE', false, false],
      ['ENFORCE', false, true],
    ] as const) {
      const body = reserveBody(tenant, 1, { dry_run: dryRun });
      const answer = await call('/v1/reservations', { ...body, observe_mode: mode });
      expectStatus(answer, 200);
      expect('cycles_evidence' in answer.body).toBe(isAttested);
      if (isAttested) {
        const { payload } = await evidenceOf(answer);
        expect(payload.reserve).toEqual({ request: body, response: attested(answer) });
      }
      const again = await call('/v1/reservations', { ...body, observe_mode: mode });
      expect(attested(again)).toEqual(attested(answer));
      expect(again.body.cycles_evidence).toEqual(answer.body.cycles_evidence);
    }
  });

  test('under caps has evidence with the caps', async () => {
    const capped = await holdfast.fundedTenant(100);
    const policy = {
      tenant_id: capped.id,
      name: 'caps',
      scope_pattern: `tenant:${capped.id}`,
      caps: { max_tokens: 5 },
    };
    expectStatus(await holdfast.admin('POST', '/v1/admin/policies', policy), 201);
    const answer = await call('/v1/reservations', reserveBody(capped, 1), { key: capped.key });
    expect((await evidenceOf(answer)).payload.reserve.response).toMatchObject({
      decision: 'ALLOW_WITH_CAPS',
      caps: { max_tokens: 5 },
    });
  });
});

describe('a decision', () => {
  test('has evidence, allowed or denied, and replays it', async () => {
    shows('decide');
    for (const [amount, decision] of [
      [1, 'ALLOW'],
      [10_000_000, 'DENY'],
    ] as const) {
      const body = reserveBody(tenant, amount);
      const answer = await call('/v1/decide', body);
      const envelope = await evidenceOf(answer);
      expect(envelope).toMatchObject({ artifact_type: 'decide', trace_id: TRACE_ID });
      expect(envelope.payload.decide).toEqual({ request: body, response: attested(answer) });
      expect(answer.body.decision).toBe(decision);
      expect((await call('/v1/decide', body)).text).toBe(answer.text);
    }
  });
});

describe('a settlement', () => {
  const hold = async (amount = 9): Promise<string> =>
    expectStatus(await call('/v1/reservations', reserveBody(tenant, amount)), 200).reservation_id as string;

  test.each(['commit', 'release'] as const)(
    'by %s has evidence with the id of the reservation, and replays it',
    async (verb) => {
      const id = await hold();
      const body =
        verb === 'commit'
          ? {
              idempotency_key: newKey(),
              actual: { unit: 'TOKENS', amount: 7 },
              metrics: { tokens_input: 5 },
              metadata: { a: 1 },
            }
          : { idempotency_key: newKey(), reason: 'not “needed”\nany more' };
      const answer = await call(`/v1/reservations/${id}/${verb}`, body);
      expectStatus(answer, 200);
      const envelope = await evidenceOf(answer);
      expect(envelope).toMatchObject({ artifact_type: verb, trace_id: TRACE_ID });
      expect(envelope.payload[verb]).toEqual({
        reservation_id: id,
        request: body,
        response: attested(answer),
      });
      expect((await call(`/v1/reservations/${id}/${verb}`, body)).text).toBe(answer.text);
    },
  );

  test('by an operator has evidence, too', async () => {
    const id = await hold();
    const answer = await holdfast.admin('POST', `/v1/reservations/${id}/release`, {
      idempotency_key: newKey(),
    });
    expect((await evidenceOf(answer)).payload.release.reservation_id).toBe(id);
  });

  test('is named with the reserve wherever the reservation is shown, after its record was packed, too', async () => {
    const reserved = await call('/v1/reservations', reserveBody(tenant, 9));
    const id = reserved.body.reservation_id as string;
    const shown = async (): Promise<Json> =>
      (await holdfast.call('GET', `/v1/reservations/${id}`, { key: tenant.key })).body.evidence;
    expect(await shown()).toEqual({ reserve: reserved.body.cycles_evidence });
    const committed = await holdfast.commit(tenant, id, 5);
    const both = { reserve: reserved.body.cycles_evidence, commit: committed.body.cycles_evidence };
    expect(await shown()).toEqual(both);
    await holdfast.app.get(RecordJanitor).pack(60_000);
    expect(await shown()).toEqual(both);
    const listed = async (include: string): Promise<Json> =>
      (await holdfast.call('GET', `/v1/reservations?limit=1${include}`, { key: tenant.key })).body
        .reservations[0];
    expect((await listed('&include=evidence')).evidence).toEqual(both);
    expect((await listed('&include=evidence,metadata')).evidence).toEqual(both);
    expect(await listed('')).not.toHaveProperty('evidence');
  });
});

describe('a denial', () => {
  const denial = async (path: string, body: Json, key = tenant.key): Promise<[Answer, Json]> => {
    const answer = await call(path, body, { key });
    return [answer, await evidenceOf(answer)];
  };

  test('of a reserve has evidence of the whole response, and each attempt has its own', async () => {
    shows('evidence of denials');
    const body = reserveBody(tenant, 10_000_000);
    const [answer, envelope] = await denial('/v1/reservations', body);
    expectRefusal(answer, 409, 'BUDGET_EXCEEDED');
    expect(envelope).toMatchObject({ artifact_type: 'error', trace_id: TRACE_ID });
    expect(envelope.payload.error).toEqual({
      endpoint: 'POST /v1/reservations',
      http_status: 409,
      request: body,
      response: attested(answer),
    });
    const [, again] = await denial('/v1/reservations', body);
    expect(again.evidence_id).not.toBe(envelope.evidence_id);
  });

  test('includes the request up to 2,048 bytes of canonical JSON', async () => {
    const body = (metadata: object): Json => reserveBody(tenant, 10_000_000, { metadata });
    const room = 2048 - Buffer.byteLength(canonicalJson(body({ a: '' })));
    // The last character takes two bytes.
    const fits = { a: `${'x'.repeat(room - 2)}é` };
    const atLimit = body(fits);
    expect(Buffer.byteLength(canonicalJson(atLimit))).toBe(2048);
    expect((await denial('/v1/reservations', atLimit))[1].payload.error.request).toEqual(atLimit);
    const [answer, envelope] = await denial('/v1/reservations', body({ a: `x${fits.a}` }));
    expectRefusal(answer, 409, 'BUDGET_EXCEEDED');
    expect(envelope.payload.error).toEqual({
      endpoint: 'POST /v1/reservations',
      http_status: 409,
      response: attested(answer),
    });
  });

  test.each([
    ['UNIT_MISMATCH', 400, { estimate: { unit: 'CREDITS', amount: 1 } }],
    ['NOT_FOUND', 404, {}],
  ])('%s has evidence', async (code, status, more) => {
    const other = code === 'NOT_FOUND' ? await holdfast.createTenant() : tenant;
    const [answer, envelope] = await denial('/v1/reservations', reserveBody(other, 1, more), other.key);
    expectRefusal(answer, status, code);
    expect(envelope.payload.error.http_status).toBe(status);
  });

  test('of a settlement names its reservation', async () => {
    shows('evidence of denials');
    const { reservation_id: id } = (await call('/v1/reservations', reserveBody(tenant, 1))).body;
    await holdfast.commit(tenant, id as string, 1);
    for (const [verb, body] of [
      ['commit', { idempotency_key: newKey(), actual: { unit: 'TOKENS', amount: 1 } }],
      ['release', { idempotency_key: newKey() }],
    ] as const) {
      const [answer, envelope] = await denial(`/v1/reservations/${id}/${verb}`, body);
      expectRefusal(answer, 409, 'RESERVATION_FINALIZED');
      expect(envelope.payload.error).toMatchObject({
        endpoint: `POST /v1/reservations/{reservation_id}/${verb}`,
        reservation_id: id,
        request: body,
      });
    }
    const { reservation_id: other } = (await call('/v1/reservations', reserveBody(tenant, 1))).body;
    const wrongUnit = { idempotency_key: newKey(), actual: { unit: 'CREDITS', amount: 1 } };
    expectRefusal((await denial(`/v1/reservations/${other}/commit`, wrongUnit))[0], 400, 'UNIT_MISMATCH');
  });

  test('of a closed tenant is an error for a reserve and a decision for decide, both attested', async () => {
    const closed = await holdfast.fundedTenant(100);
    await store().client.hset(
      tenantKey(tagOfTenant(closed.id, store().partitions), closed.id),
      'status',
      'CLOSED',
    );
    const [refused] = await denial('/v1/reservations', reserveBody(closed, 1), closed.key);
    expectRefusal(refused, 409, 'TENANT_CLOSED');
    const decided = await call('/v1/decide', reserveBody(closed, 1), { key: closed.key });
    expect((await evidenceOf(decided)).payload.decide.response).toMatchObject({
      decision: 'DENY',
      reason_code: 'TENANT_CLOSED',
    });
  });

  test('by the rules on actions is attested as a decision and as a dry run; as an error it has no form', async () => {
    shows('evidence of denials');
    const limited = await holdfast.fundedTenant(100);
    const body: Json = reserveBody(limited, 1);
    const policy = { tenant_id: limited.id, scope_pattern: `tenant:${limited.id}` };
    for (const [code, rules] of [
      ['ACTION_KIND_DENIED', { denied_action_kinds: [body.action.kind] }],
      ['ACTION_KIND_NOT_ALLOWED', { allowed_action_kinds: ['http.get'] }],
      [
        'ACTION_QUOTA_EXCEEDED',
        { action_quotas: [{ action_kind: body.action.kind, max_calls: 1, window: 'per_day_tumbling' }] },
      ],
    ] as const) {
      const { policy_id: id } = expectStatus(
        await holdfast.admin('POST', '/v1/admin/policies', { ...policy, name: code, ...rules }),
        201,
      );
      const fresh = (): Json => ({ ...body, idempotency_key: newKey() });
      if (code === 'ACTION_QUOTA_EXCEEDED') {
        expectStatus(await call('/v1/reservations', fresh(), { key: limited.key }), 200);
      }
      const live = await call('/v1/reservations', fresh(), { key: limited.key });
      expect(expectRefusal(live, 409, code)).not.toHaveProperty('cycles_evidence');
      for (const [path, artifact, more] of [
        ['/v1/decide', 'decide', {}],
        ['/v1/reservations', 'reserve', { dry_run: true }],
      ] as const) {
        const answer = await call(path, { ...fresh(), ...more }, { key: limited.key, extended: true });
        expect((await evidenceOf(answer)).payload[artifact].response).toMatchObject({
          decision: 'DENY',
          reason_code: code,
        });
      }
      expectStatus(await holdfast.admin('PATCH', `/v1/admin/policies/${id}`, { status: 'DISABLED' }), 200);
    }
  });

  test('before any decision has no evidence, and neither have extensions and direct debits', async () => {
    const { reservation_id: id, cycles_evidence: _ } = (
      await call('/v1/reservations', reserveBody(tenant, 1))
    ).body;
    const used = reserveBody(tenant, 1);
    await call('/v1/reservations', used);
    const answers = [
      await call('/v1/reservations', { ...reserveBody(tenant, 1), unknown: 1 }),
      await call('/v1/reservations', reserveBody(tenant, 1, { subject: { tenant: 'another' } })),
      await call('/v1/reservations', { ...used, estimate: { unit: 'TOKENS', amount: 2 } }),
      await call(`/v1/reservations/rsv_00${'a'.repeat(16)}/commit`, {
        idempotency_key: newKey(),
        actual: { unit: 'TOKENS', amount: 1 },
      }),
      await call('/v1/reservations', reserveBody(tenant, 1), { key: 'no-key' }),
      await call(`/v1/reservations/${id}/extend`, { idempotency_key: newKey(), extend_by_ms: 1000 }),
      await holdfast.call('POST', '/v1/events', {
        key: tenant.key,
        body: { ...reserveBody(tenant, 1), estimate: undefined, actual: { unit: 'TOKENS', amount: 1 } },
      }),
    ];
    expect(answers.map(({ status }) => status)).toEqual([400, 403, 409, 404, 401, 200, 201]);
    expect(answers.filter(({ body }) => 'cycles_evidence' in body)).toEqual([]);
  });
});

describe('an envelope', () => {
  const issued = async (): Promise<string> =>
    (await call('/v1/decide', reserveBody(tenant, 1))).body.cycles_evidence.evidence_id as string;

  test('may be cached forever, stays as long as ended reservations, and needs no key', async () => {
    const id = await issued();
    const answer = await get(`/v1/evidence/${id}`);
    expect(answer.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
    const ttlMs = await store().client.pttl(keyOf(id));
    expect(ttlMs).toBeGreaterThan(30 * 86_400_000 - 60_000);
    expect(ttlMs).toBeLessThanOrEqual(30 * 86_400_000);
  });

  test('that does not exist is 404, and a malformed one is 400', async () => {
    const missing = await holdfast.metric('holdfast_evidence_reads_total', { outcome: 'missing' });
    expectRefusal(await get(`/v1/evidence/${'0'.repeat(64)}`), 404, 'NOT_FOUND');
    expect(await holdfast.metric('holdfast_evidence_reads_total', { outcome: 'missing' })).toBe(missing + 1);
    for (const id of ['0'.repeat(63), 'A'.repeat(64), `${'0'.repeat(64)}0`, '%20']) {
      expectRefusal(await get(`/v1/evidence/${id}`), 400, 'INVALID_REQUEST');
    }
  });

  test('that is damaged is never served', async () => {
    const [changed, replaced] = [await issued(), await issued()];
    const { client } = store();
    const text = (await client.get(keyOf(changed))) as string;
    await client.set(keyOf(changed), text.replace('ALLOW', 'DENY'));
    await client.del(keyOf(replaced));
    await client.lpush(keyOf(replaced), 'x');
    const damaged = await holdfast.metric('holdfast_evidence_reads_total', { outcome: 'damaged' });
    expectRefusal(await get(`/v1/evidence/${changed}`), 500, 'INTERNAL_ERROR');
    expectRefusal(await get(`/v1/evidence/${replaced}`), 500, 'INTERNAL_ERROR');
    expect(await holdfast.metric('holdfast_evidence_reads_total', { outcome: 'damaged' })).toBe(damaged + 2);
  });
});

test('the key set has only the public parts, and may be cached for five minutes', async () => {
  shows('getEvidenceJwks', 'key set');
  const answer = await get('/v1/.well-known/cycles-jwks.json');
  const [key] = expectStatus(answer, 200).keys as Json[];
  expect(key).toMatchObject({ kty: 'OKP', crv: 'Ed25519', alg: 'EdDSA', status: 'active' });
  expect(key).not.toHaveProperty('d');
  expect(answer.headers.get('cache-control')).toBe('public, max-age=300');
});

test('each operation of a batch has the evidence of a request of its own', async () => {
  const held = async (): Promise<string> =>
    expectStatus(await holdfast.reserve(tenant, 10), 200).reservation_id as string;
  const operations = [
    reserveOf(tenant, 5),
    commitOf(await held(), 7),
    releaseOf(await held()),
    reserveOf(tenant, 2_000_000),
  ];
  const results = await resultsOf(holdfast, tenant, operations);
  expect(results.map(({ status }) => status as number)).toEqual([200, 200, 200, 409]);
  const ids = results.map(({ body }) => body.cycles_evidence.evidence_id as string);
  expect(new Set(ids).size).toBe(4);
  const envelopes = await Promise.all(
    results.map(async ({ body, status }) => evidenceOf({ body, status, text: '', headers: new Headers() })),
  );
  expect(envelopes.map((envelope) => envelope.artifact_type as string)).toEqual([
    'reserve',
    'commit',
    'release',
    'error',
  ]);
  expect(envelopes.map(({ artifact_type: type, payload }) => payload[type].request)).toEqual(
    operations.map(({ body }) => body),
  );
});
