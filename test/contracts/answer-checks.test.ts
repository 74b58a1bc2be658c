import { describe, expect, test } from '@jest/globals';
import { shows } from '../compatibility/shows.js';
import { balanceProblems } from '../support/balance-rules.js';
import { contractProblems, specAbsence, type Exchange } from '../support/spec/index.js';
import {
  KNOWN_MCP_FAILURES,
  mcpProblems,
  sdkProblems,
  unexplainedMcpProblems,
} from '../support/sdk-rules.js';

/** The checks that every HTTP test relies on must find faults themselves. */

const IDS = {
  'x-request-id': `req_${'a'.repeat(24)}`,
  'x-cycles-trace-id': 'b'.repeat(32),
  'x-content-type-options': 'nosniff',
};
const JSON_HEADERS = { ...IDS, 'content-type': 'application/json; charset=utf-8', 'x-cycles-tenant': 'acme' };

function exchange(
  method: string,
  path: string,
  status: number,
  body: object,
  headers: Record<string, string> = JSON_HEADERS,
): Exchange {
  return {
    method,
    path,
    requestHeaders: new Headers({ 'x-cycles-api-key': 'key' }),
    requestBody: method === 'GET' ? undefined : '{"idempotency_key":"k","extend_by_ms":1}',
    status,
    headers: new Headers(headers),
    text: JSON.stringify(body),
    body,
  };
}

const amount = (value: number): object => ({ unit: 'TOKENS', amount: value });
const EXTENDED = { status: 'ACTIVE', expires_at_ms: 1, remaining_ttl_ms: 1 };
const EXTEND = '/v1/reservations/rsv_1/extend';
const error = (code: string): object => ({
  error: code,
  message: 'm',
  request_id: IDS['x-request-id'],
  trace_id: IDS['x-cycles-trace-id'],
});

const absence = specAbsence();
const withSpec = absence === undefined ? describe : describe.skip;

withSpec(`the protocol's documents${absence === undefined ? '' : ` (skipped: ${absence})`}`, () => {
  test('accept a correct response', () => {
    expect(contractProblems(exchange('POST', EXTEND, 200, EXTENDED))).toEqual([]);
    expect(contractProblems(exchange('POST', EXTEND, 409, error('MAX_EXTENSIONS_EXCEEDED')))).toEqual([]);
    expect(contractProblems(exchange('GET', '/v1/nothing', 404, error('NOT_FOUND')))).toEqual([]);
  });

  test.each([
    [
      'an undeclared member',
      exchange('POST', EXTEND, 200, { ...EXTENDED, trace_id: 'x' }),
      'additional properties',
    ],
    ['a missing member', exchange('POST', EXTEND, 200, { status: 'ACTIVE' }), 'expires_at_ms'],
    ['a wrong type', exchange('POST', EXTEND, 200, { ...EXTENDED, expires_at_ms: 1.5 }), '/expires_at_ms'],
    [
      'a negative amount',
      exchange('POST', '/v1/reservations/r/release', 200, { status: 'RELEASED', released: amount(-1) }),
      '/released/amount',
    ],
    ['an undeclared status', exchange('POST', EXTEND, 202, EXTENDED), '202'],
    ['an error code of the other plane', exchange('POST', EXTEND, 404, error('BUDGET_NOT_FOUND')), '/error'],
    [
      'an undeclared member of an error',
      exchange('GET', '/v1/admin/tenants', 400, { ...error('INVALID_REQUEST'), hint: 'x' }),
      'hint',
    ],
    [
      'an error that names another request',
      exchange('POST', EXTEND, 404, { ...error('NOT_FOUND'), request_id: 'req_1' }),
      'request_id',
    ],
    [
      'an operation that the protocol lacks',
      exchange('DELETE', '/v1/reservations/r', 200, {}),
      'the protocol has no',
    ],
    [
      'a success without the tenant',
      exchange('POST', EXTEND, 200, EXTENDED, { ...IDS, 'content-type': 'application/json' }),
      'X-Cycles-Tenant',
    ],
    ['a response without its request id', exchange('GET', '/health/live', 200, {}, {}), 'X-Request-Id'],
    [
      'a response whose type browsers may guess',
      exchange('GET', '/health/live', 200, {}, { ...IDS, 'x-content-type-options': '' }),
      'X-Content-Type-Options',
    ],
    [
      'a secret that caches may store',
      exchange('POST', '/v1/admin/api-keys', 201, { key_secret: 'x' }),
      'Cache-Control',
    ],
    [
      'a secret that caches may store, where none belongs',
      exchange('GET', '/ops/x', 200, { a: `cyc_live_0f${'A'.repeat(43)}` }),
      'Cache-Control',
    ],
    ['429 without Retry-After', exchange('POST', EXTEND, 429, error('LIMIT_EXCEEDED')), 'Retry-After'],
    [
      '503 with a date to retry at',
      exchange('POST', EXTEND, 503, error('INTERNAL_ERROR'), { ...JSON_HEADERS, 'retry-after': 'Sat' }),
      'Retry-After',
    ],
    [
      'a body of another type',
      exchange('POST', EXTEND, 200, EXTENDED, { ...JSON_HEADERS, 'content-type': 'text/plain' }),
      'content type',
    ],
  ])('find %s', (_what, wrong, words) => {
    shows('throttling', 'trace id header', 'trace id in errors');
    expect(contractProblems(wrong).join('; ')).toContain(words);
  });

  test('find a success of what the protocol refuses', () => {
    const wrong = {
      ...exchange('POST', EXTEND, 200, EXTENDED),
      requestBody: '{"idempotency_key":"k","extend_by_ms":0}',
    };
    expect(contractProblems(wrong).join()).toContain(
      'extendReservation took a body that the protocol refuses: /extend_by_ms',
    );
  });

  test('find an integer beyond int64', () => {
    const wrong = {
      ...exchange('POST', EXTEND, 200, EXTENDED),
      body: { ...EXTENDED, expires_at_ms: 2n ** 63n },
    };
    expect(contractProblems(wrong).join()).toContain('no int64');
  });
});

describe('the rules of the clients', () => {
  const created = {
    decision: 'ALLOW',
    reservation_id: 'rsv_1',
    affected_scopes: ['tenant:a'],
    reserved: amount(1),
    expires_at_ms: 1,
    remaining_ttl_ms: 1,
    balances: [{ scope: 'tenant:a', scope_path: 'tenant:a', remaining: amount(-1), allocated: amount(1) }],
  };
  const row = {
    reservation_id: 'rsv_1',
    status: 'ACTIVE',
    subject: { tenant: 'a' },
    action: { kind: 'k', name: 'n' },
    reserved: amount(1),
    created_at_ms: 1,
    expires_at_ms: 1,
    scope_path: 'tenant:a',
    affected_scopes: ['tenant:a'],
  };
  const PATH = '/v1/reservations';

  test('accept correct successes and every error', () => {
    expect(sdkProblems('POST', PATH, 200, created)).toEqual([]);
    expect(sdkProblems('POST', PATH, 409, {})).toEqual([]);
    expect(
      sdkProblems('GET', `${PATH}?limit=1`, 200, {
        reservations: [{ ...row, metadata: { nothing: null } }],
        has_more: false,
      }),
    ).toEqual([]);
  });

  test.each([
    ['another status', 'POST', PATH, 201, created, 'only 200'],
    ['an unknown member', 'POST', PATH, 200, { ...created, trace_id: 'x' }, 'unknown'],
    ['evidence', 'POST', PATH, 200, { ...created, cycles_evidence: {} }, 'evidence_id'],
    ['a null', 'POST', PATH, 200, { ...created, caps: null }, 'caps'],
    ['a null deep inside', 'GET', `${PATH}/r`, 200, { ...row, subject: { dimensions: { a: null } } }, 'null'],
    [
      'an amount with more than its two members',
      'POST',
      PATH,
      200,
      { ...created, reserved: { ...amount(1), currency: 'x' } },
      'currency',
    ],
    ['a negative amount', 'POST', PATH, 200, { ...created, reserved: amount(-1) }, 'negative'],
    [
      'a lease without its remaining time',
      'POST',
      PATH,
      200,
      { ...created, remaining_ttl_ms: undefined },
      'remaining_ttl_ms',
    ],
    [
      'a missing list of scopes',
      'POST',
      PATH,
      200,
      { decision: 'DENY', reason_code: 'X' },
      'affected_scopes',
    ],
    [
      'a denial without its reason',
      'POST',
      PATH,
      200,
      { decision: 'DENY', affected_scopes: [] },
      'reason_code',
    ],
    ['caps without the decision', 'POST', '/v1/decide', 200, { decision: 'ALLOW', caps: {} }, 'caps'],
    [
      'a balance without its allocation',
      'GET',
      '/v1/balances',
      200,
      { balances: [{ scope: 'a', scope_path: 'a', remaining: amount(1) }] },
      'allocated',
    ],
    [
      'a cursor that leads nowhere',
      'GET',
      PATH,
      200,
      { reservations: [], has_more: false, next_cursor: 'x' },
      'next_cursor',
    ],
    [
      'a row without what the MCP server needs',
      'GET',
      PATH,
      200,
      { reservations: [{ ...row, action: { kind: 'k' } }] },
      'action.name',
    ],
    ['an event with 200', 'POST', '/v1/events', 200, { status: 'APPLIED', event_id: 'e' }, 'only 201'],
  ])('find %s', (_what, method, path, status, body, words) => {
    shows('caps', 'shape of dry run');
    expect(sdkProblems(method, path, status, body).join('; ')).toContain(words);
  });
});

describe('what an MCP client that validates outputs rejects', () => {
  const denied = { decision: 'DENY', affected_scopes: [], reason_code: 'BUDGET_EXCEEDED' };
  const created = {
    decision: 'ALLOW',
    affected_scopes: ['tenant:a'],
    reservation_id: 'rsv_1',
    reserved: amount(1),
    expires_at_ms: 1,
    remaining_ttl_ms: 1,
  };
  const ANSWERS: readonly [path: string, body: object][] = [
    ['/v1/reservations', created],
    [EXTEND, EXTENDED],
  ];

  test('is the remaining time of a reserve and of an extension, and each of these failures is listed with its reason', () => {
    const found = ANSWERS.flatMap(([path, body]) => mcpProblems('POST', path, 200, body));
    expect(found).toEqual(KNOWN_MCP_FAILURES.map(({ problem }) => problem));
    expect(KNOWN_MCP_FAILURES.filter(({ reason }) => reason === '')).toEqual([]);
    expect(ANSWERS.flatMap(([path, body]) => unexplainedMcpProblems('POST', path, 200, body))).toEqual([]);
  });

  test('is nothing of a dry run, a denial, a refusal and the operations that no tool calls', () => {
    const { reservation_id: _, expires_at_ms: __, remaining_ttl_ms: ___, ...dryRun } = created;
    expect(mcpProblems('POST', '/v1/reservations', 200, dryRun)).toEqual([]);
    expect(mcpProblems('POST', '/v1/reservations', 200, denied)).toEqual([]);
    expect(mcpProblems('POST', '/v1/reservations', 409, created)).toEqual([]);
    expect(mcpProblems('GET', '/v1/admin/tenants', 200, { tenants: [] })).toEqual([]);
  });

  test.each([
    ['/v1/reservations', { ...created, trace_id: 'x' }, 'createReservation.trace_id'],
    [EXTEND, { ...EXTENDED, cycles_evidence: {} }, 'extendReservation.cycles_evidence'],
    [
      '/v1/reservations/r/commit',
      { status: 'COMMITTED', charged: amount(1), remaining_ttl_ms: 1 },
      'commitReservation.remaining_ttl_ms',
    ],
  ])('and that is not listed is an error: %s %j', (path, body, words) => {
    expect(unexplainedMcpProblems('POST', path, 200, body).join()).toContain(words);
  });
});

describe('the rules of balances', () => {
  const balance = {
    scope: 'a',
    scope_path: 'a',
    remaining: amount(4),
    allocated: amount(10),
    spent: amount(3),
    reserved: amount(2),
    debt: amount(1),
  };
  const answer = (changed: object): object => ({ balances: [balance, { ...balance, ...changed }] });

  test('accept one that adds up, also beyond 2^53, and one that does not have all figures', () => {
    shows('balance adds up');
    const large = {
      allocated: { unit: 'TOKENS', amount: 9223372036854775807n },
      remaining: { unit: 'TOKENS', amount: 9223372036854775801n },
    };
    expect(
      [
        answer({}),
        answer(large),
        answer({ allocated: undefined, remaining: amount(99) }),
        answer({ debt: undefined, remaining: amount(5) }),
      ].flatMap((body) => balanceProblems(body)),
    ).toEqual([]);
  });

  test.each([
    ['figures that do not add up', answer({ remaining: amount(5) }), '5 remains'],
    ['figures that do not add up without a debt', answer({ debt: undefined }), '4 remains'],
    ['two units', answer({ overdraft_limit: { unit: 'CREDITS', amount: 0 } }), 'TOKENS, CREDITS'],
  ])('find %s', (_what, body, words) => {
    shows('balance adds up');
    expect(balanceProblems(body).join('; ')).toContain(words);
  });
});
