import { describe, expect, test } from '@jest/globals';
import { pino } from 'pino';
import { shows } from '../compatibility/shows.js';
import {
  expectRefusal,
  expectStatus,
  newKey,
  reserveBody,
  type Answer,
  type Json,
  type TestTenant,
} from '../support/holdfast.js';
import { publishedRegistry, specAbsence } from '../support/spec/index.js';
import { useGovernance } from '../support/use-governance.js';

const LIMIT = 8;
const DECLARED = {
  kind: 'custom.acme.invoice.post',
  risk_class: 'high_risk',
  policy_key_spec: { host: true, recipient_domain: false },
  mcp_tool_prefixes: ['acme_post_', 'send_email_acme_'],
};
const lines: string[] = [];
const logger = pino({ base: null }, { write: (line: string) => void lines.push(line) });
const on = useGovernance(
  { logger },
  {
    TRUST_PROXY: 'loopback',
    rateLimitPublicPerMinute: LIMIT,
    CUSTOM_ACTION_KINDS: JSON.stringify([DECLARED]),
  },
);

let clients = 0;

/** Reads without a key. Each client has its own address, because the registry is rate-limited by address. */
function newClient(): (path: string, headers?: Record<string, string>) => Promise<Answer> {
  clients += 1;
  const address = `192.0.2.${clients}`;
  return (path, headers = {}) =>
    on.holdfast.call('GET', `/v1/action-kinds${path}`, {
      headers: { 'x-forwarded-for': address, ...headers },
    });
}

async function all(filter = ''): Promise<Json[]> {
  const read = newClient();
  const kinds: Json[] = [];
  for (let cursor = ''; ;) {
    const page = expectStatus(await read(`?limit=40${filter}${cursor}`), 200);
    kinds.push(...(page.kinds as Json[]));
    if (page.has_more !== true) {
      return kinds;
    }
    cursor = `&cursor=${page.next_cursor}`;
  }
}

const absence = specAbsence();
const withSpec = absence === undefined ? test : test.skip;

describe('the registry of action kinds', () => {
  withSpec(
    `is the protocol's, in its order${absence === undefined ? '' : ` (skipped: ${absence})`}`,
    async () => {
      shows('action kind registry', 'listActionKinds');
      const published = publishedRegistry();
      expect(await all()).toEqual(published.kinds);
      expect(expectStatus(await newClient()('?limit=1'), 200).version).toBe(published.version);
    },
  );

  test('is read page by page, and filtered by risk class', async () => {
    shows('listActionKinds', 'deprecated kinds');
    const read = newClient();
    const first = expectStatus(await read(''), 200);
    expect([first.kinds.length, first.has_more]).toEqual([50, true]);
    const kinds = await all();
    expect(kinds.map(({ kind }) => kind as string)).toEqual([
      ...new Set(kinds.map(({ kind }) => kind as string)),
    ]);
    expect(kinds.at(-1).kind).toBe('unknown.call');
    expect(await all('&risk_class=high_risk')).toEqual(
      kinds.filter(({ risk_class: risk }) => risk === 'high_risk'),
    );
    expect(await all('&deprecated=true')).toEqual(kinds);
  });

  test.each(['?risk_class=grave', '?limit=0', '?limit=101', '?deprecated=maybe', '?cursor=none'])(
    'refuses %s',
    async (query) => {
      expectRefusal(await newClient()(query), 400, 'INVALID_REQUEST');
    },
  );

  test('has a cursor for each filter', async () => {
    const read = newClient();
    const { next_cursor: cursor } = expectStatus(await read('?limit=1'), 200);
    expectRefusal(await read(`?risk_class=read_only&cursor=${cursor}`), 400, 'INVALID_REQUEST');
  });

  test('finds a kind by its exact name only', async () => {
    shows('action kind registry', 'getActionKind');
    const read = newClient();
    expect(expectStatus(await read('/db.write'), 200)).toMatchObject({
      kind: 'db.write',
      risk_class: 'side_effect',
      policy_key_spec: { resource_type: 'table' },
    });
    expect(expectStatus(await read('/llm.completion'), 200)).not.toHaveProperty('policy_key_spec');
    for (const kind of ['llm', 'llm.completion.x', 'LLM.completion', 'toString', `a.${'b'.repeat(80)}`]) {
      expectRefusal(await read(`/${kind}`), 404, 'NOT_FOUND');
    }
  });

  test('is sent again only to clients that do not have it, and only that counts against their limit', async () => {
    shows('registry limits');
    const read = newClient();
    const { headers } = await read('');
    expect(headers.get('cache-control')).toBe('public, max-age=3600');
    const tag = headers.get('etag') as string;
    expect(tag).toMatch(/^"[0-9a-f]{32}"$/);
    for (const kept of [tag, `W/${tag}`, `"other", ${tag}`]) {
      for (let count = 0; count < LIMIT; count += 1) {
        const answer = await read(count % 2 === 0 ? '' : '/web.search', { 'if-none-match': kept });
        expect([answer.status, answer.text, answer.headers.get('etag')]).toEqual([304, '', tag]);
      }
    }
    for (let left = LIMIT - 2; left >= 0; left -= 1) {
      const answer = await read(left % 2 === 0 ? '/web.search' : '/none', { 'if-none-match': '"other"' });
      expect(answer.headers.get('x-ratelimit-remaining')).toBe(String(left));
    }
    const before = await on.holdfast.metric('holdfast_rate_limited_total', { limit: 'public' });
    for (const refused of [
      await read(''),
      await read('/web.search'),
      await read('/none', { 'if-none-match': tag }),
    ]) {
      expectRefusal(refused, 429, 'LIMIT_EXCEEDED');
      expect(refused.headers.get('retry-after')).toMatch(/^[1-9]\d?$/);
    }
    expect(await on.holdfast.metric('holdfast_rate_limited_total', { limit: 'public' })).toBe(before + 3);
    expectStatus(await newClient()(''), 200);
  });
});

describe('a custom kind', () => {
  const UNREGISTERED = 'holdfast_unregistered_action_kinds_total';
  const logged = (kind: string): Json[] =>
    lines.map((line) => JSON.parse(line)).filter((line) => line.kind === kind);
  const send = (tenant: TestTenant, path: string, kind: string, more = {}): Promise<Answer> =>
    on.holdfast.call('POST', path, {
      key: tenant.key,
      body: reserveBody(tenant, 1, { action: { kind, name: 'x', ...more } }),
      extended: true,
    });
  const policy = (tenant: TestTenant, rules: Json): Promise<Answer> =>
    on.holdfast.call('POST', '/v1/admin/policies', {
      key: tenant.key,
      body: { name: newKey(), scope_pattern: `tenant:${tenant.id}`, ...rules },
    });

  test('that is declared has its risk class and policy keys, and is shown to operators only', async () => {
    shows('custom kinds', 'action kind registry', 'policy keys');
    const tenant = await on.holdfast.fundedTenant();
    const quota = { max_calls: 1, window: 'per_day_tumbling' };
    const made = await policy(tenant, {
      risk_class_quotas: [{ ...quota, risk_class: 'high_risk', max_calls: 3 }],
      action_quotas: [
        { ...quota, action_kind: DECLARED.kind, host_allowlist: ['a.example'] },
        { ...quota, action_kind: DECLARED.kind, recipient_domain_allowlist: ['b.example'] },
      ],
    });
    const { policy_id: id } = expectStatus(made, 201);
    const to = (keys = {}): Promise<Answer> =>
      send(tenant, '/v1/reservations', DECLARED.kind, {
        policy_keys: { recipient_domain: 'b.example', ...keys },
      });
    expectStatus(await to({ host: 'a.example' }), 200);
    expectRefusal(await to({ host: 'a.example' }), 409, 'ACTION_QUOTA_EXCEEDED');
    expectStatus(await to(), 200);
    expectStatus(await to(), 200);
    const { quota_violation: violation } = (await to()).body.details.deny_detail;
    expect(violation).toMatchObject({ risk_class: 'high_risk', action_kind: DECLARED.kind, policy_id: id });
    expectRefusal(await newClient()(`/${DECLARED.kind}`), 404, 'NOT_FOUND');
    expect((await all()).some(({ kind }) => kind === DECLARED.kind)).toBe(false);
    const declared = expectStatus(await on.holdfast.admin('GET', '/ops/action-kinds'), 200);
    // The other prefix belongs to message.email.send.
    expect(declared.kinds).toEqual([{ ...DECLARED, mcp_tool_prefixes: ['acme_post_'] }]);
    expectRefusal(
      await on.holdfast.call('GET', '/ops/action-kinds', { key: tenant.key }),
      401,
      'UNAUTHORIZED',
    );
    expect(logged(DECLARED.kind)).toEqual([
      expect.objectContaining({ prefix: 'send_email_acme_', built_in_kind: 'message.email.send' }),
    ]);
  });

  test('that is not declared is 400 and changes nothing, in requests and in the rules of a policy', async () => {
    shows('custom kinds');
    const tenant = await on.holdfast.fundedTenant();
    const kind = `custom.other.${newKey()}`;
    const before = await on.holdfast.metric(UNREGISTERED, { outcome: 'refused' });
    for (const [path, more] of [
      ['/v1/reservations', {}],
      ['/v1/reservations', { dry_run: true }],
      ['/v1/reservations', { observe_mode: 'OBSERVE' }],
      ['/v1/decide', {}],
    ] as const) {
      const body = reserveBody(tenant, 1, { action: { kind, name: 'x' }, ...more });
      const answer = await on.holdfast.call('POST', path, { key: tenant.key, body, extended: true });
      expectRefusal(answer, 400, 'INVALID_REQUEST');
      expect(answer.body.message).toContain('not registered');
      expect(answer.body.details).toEqual({ field: 'action.kind' });
    }
    expect(await on.holdfast.metric(UNREGISTERED, { outcome: 'refused' })).toBe(before + 4);
    expect(logged(kind)).toHaveLength(1);
    const quota = { action_kind: kind, max_calls: 1, window: 'per_day_tumbling' };
    const made = expectStatus(await policy(tenant, {}), 201);
    for (const rules of [
      { action_quotas: [quota] },
      { denied_action_kinds: [kind] },
      { allowed_action_kinds: [kind] },
    ]) {
      expectRefusal(await policy(tenant, rules), 400, 'INVALID_REQUEST');
      const path = `/v1/admin/policies/${made.policy_id}`;
      const patched = await on.holdfast.call('PATCH', path, { key: tenant.key, body: rules });
      expectRefusal(patched, 400, 'INVALID_REQUEST');
    }
    const types = (await on.stored.events(tenant.id)).map(({ type }) => type);
    expect(types.filter((type) => type.startsWith('reservation.') || type === 'policy.updated')).toEqual([]);
    // A direct debit records what has already happened.
    const debit = {
      ...reserveBody(tenant, 1, { action: { kind, name: 'x' } }),
      actual: { unit: 'TOKENS', amount: 1 },
    };
    const { estimate: _, ...event } = debit as Json;
    expectStatus(await on.holdfast.call('POST', '/v1/events', { key: tenant.key, body: event }), 201);
  });

  test('with any other name counts as a side effect, and is counted and logged once', async () => {
    shows('unregistered kinds');
    const tenant = await on.holdfast.fundedTenant();
    const kind = `acme.${newKey()}`;
    const quota = { max_calls: 2, window: 'per_day_tumbling' };
    expectStatus(await policy(tenant, { risk_class_quotas: [{ ...quota, risk_class: 'side_effect' }] }), 201);
    const before = await on.holdfast.metric(UNREGISTERED, { outcome: 'side_effect' });
    for (let count = 0; count < 2; count += 1) {
      expectStatus(await send(tenant, '/v1/reservations', kind), 200);
    }
    expectRefusal(await send(tenant, '/v1/reservations', kind), 409, 'ACTION_QUOTA_EXCEEDED');
    expect(await on.holdfast.metric(UNREGISTERED, { outcome: 'side_effect' })).toBe(before + 3);
    expect(logged(kind)).toHaveLength(1);
  });
});
