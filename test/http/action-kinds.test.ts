import { describe, expect, test } from '@jest/globals';
import { shows } from '../compatibility/shows.js';
import { expectRefusal, expectStatus, type Answer, type Json } from '../support/holdfast.js';
import { publishedRegistry, specAbsence } from '../support/spec/index.js';
import { useGovernance } from '../support/use-governance.js';

const LIMIT = 8;
const on = useGovernance({}, { TRUST_PROXY: 'loopback', RATE_LIMIT_PUBLIC_PER_MINUTE: String(LIMIT) });

let clients = 0;

/** Reads without a key. Each client has an address of its own, because the registry is limited by address. */
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
    shows('listActionKinds');
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

  test('answers for an exact name only', async () => {
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
