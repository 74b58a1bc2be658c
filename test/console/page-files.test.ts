import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { firstLoadOf, MAX_FIRST_LOAD_BYTES } from '../../console/first-load.mjs';
import { useGovernance } from '../support/use-governance.js';

const on = useGovernance();
const get = (path: string, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(on.holdfast.url + path, { headers, redirect: 'manual' });
const BUILT = new URL('../../dist/page/', import.meta.url);

test('every path of the page has the same document, with its own policy and nonce', async () => {
  const nonces = new Set<string>();
  for (const path of ['/console', '/console/', '/console/tenants/acme', '/console/tenants?scope=a.b']) {
    const answer = await get(path);
    const html = await answer.text();
    expect([path, answer.status, answer.headers.get('cache-control')]).toEqual([path, 200, 'no-store']);
    const policy = answer.headers.get('content-security-policy') ?? '';
    const [, nonce = ''] = /'nonce-([^']+)'/.exec(policy) ?? [];
    expect(policy).toMatch(/^default-src 'none'; script-src 'self'; /);
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toMatch(/unsafe|https?:/);
    expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
    expect(html).toContain(`content="${nonce}"`);
    expect(html).not.toMatch(/<script(?! type="module" crossorigin src="\/console\/)|<style|style="|https?:/);
    nonces.add(nonce);
  }
  expect(nonces.size).toBe(4);
});

test('files have hashes in their names, are cached permanently, and are sent compressed', async () => {
  const names = readdirSync(new URL('assets', BUILT)).filter((name) => !name.endsWith('.br'));
  expect(names.filter((name) => !/-[\w-]{8}\.\w+$/.test(name))).toEqual([]);
  const script = names.find((name) => /^index.*\.js$/.test(name)) as string;
  const answer = await get(`/console/assets/${script}`, { 'accept-encoding': 'br' });
  expect(Object.fromEntries(answer.headers)).toMatchObject({
    'cache-control': 'public, max-age=31536000, immutable',
    'content-encoding': 'br',
    'content-type': 'text/javascript; charset=utf-8',
    'x-content-type-options': 'nosniff',
  });
  const plain = await get(`/console/assets/${script}`, { 'accept-encoding': 'identity' });
  expect(plain.headers.get('content-encoding')).toBeNull();
  expect(await plain.text()).toBe(await answer.text());
});

test('a path that belongs to neither a file nor a page is not found', async () => {
  for (const path of [
    '/console/assets/none.js',
    '/console/favicon.ico',
    '/console/api/none',
    '/console/assets/..%2findex.html',
  ]) {
    expect([path, (await get(path)).status]).toEqual([path, 404]);
  }
});

test("the console's types have amounts as the exact reader returns them, and times as numbers", () => {
  const root = new URL('../../', import.meta.url).pathname;
  execFileSync(process.execPath, [`${root}console/generate.mjs`]);
  const types = readFileSync(`${root}console/src/api/openapi.ts`, 'utf8');
  const membersOf = (schema: string): string =>
    new RegExp(`^        readonly ${schema}: \\{\n([^]*?)^        \\};`, 'm').exec(types)?.[1] ?? '';
  expect(membersOf('Amount')).toContain('readonly amount: number | bigint;');
  expect(membersOf('Caps')).toContain('readonly max_tokens?: number | bigint;');
  expect(membersOf('ReservationSummary')).toContain('readonly expires_at_ms: number;');
});

test('only what is not in the document is asked for without its types', () => {
  const folder = new URL('../../console/src/', import.meta.url);
  const untyped = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
    (name) => /\.tsx?$/.test(name) && /\bask</.test(readFileSync(new URL(name, folder), 'utf8')),
  );
  expect(untyped.sort()).toEqual(['api/client.ts', 'api/session.ts']);
});

test('the first load has at most 300 KB', () => {
  const bytes = firstLoadOf(BUILT.pathname);
  expect(bytes).toBeGreaterThan(50_000);
  expect(bytes).toBeLessThanOrEqual(MAX_FIRST_LOAD_BYTES);
});
