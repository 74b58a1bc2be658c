import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { ConsoleClient } from '../support/console-client.js';
import { Holdfast } from '../support/holdfast.js';
import { type Store, startStore } from '../support/store.js';

const CLIENT = 'holdfast';
const HOUR_S = 3600;
const newKeys = (): { publicKey: KeyObject; privateKey: KeyObject } =>
  generateKeyPairSync('rsa', { modulusLength: 2048 });

const base64 = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');

/** A signed token; without a key, one that says that it has no signature. */
function tokenOf(claims: object, key: KeyObject | undefined): string {
  const text = `${base64({ alg: key === undefined ? 'none' : 'RS256', kid: '1' })}.${base64(claims)}`;
  return `${text}.${key === undefined ? '' : sign('sha256', Buffer.from(text), key).toString('base64url')}`;
}

const keys = newKeys();
let store: Store;
let provider: Server;
let issuer: string;
let holdfast: Holdfast;
/** What the provider gives for a code, and for the access token. */
let idToken: string | undefined;
let userInfo: object = {};

beforeAll(async () => {
  store = await startStore();
  provider = createServer((request, response) => {
    const answers: Readonly<Record<string, object>> = {
      '/.well-known/openid-configuration': {
        issuer,
        authorization_endpoint: `${issuer}/authorize`,
        token_endpoint: `${issuer}/token`,
        jwks_uri: `${issuer}/jwks`,
        userinfo_endpoint: `${issuer}/userinfo`,
        response_types_supported: ['code'],
        id_token_signing_alg_values_supported: ['RS256'],
      },
      '/jwks': {
        keys: [{ ...keys.publicKey.export({ format: 'jwk' }), kid: '1', alg: 'RS256', use: 'sig' }],
      },
      '/token': { access_token: 'a', token_type: 'Bearer', id_token: idToken },
      '/userinfo': { sub: 'mallory', ...userInfo },
    };
    response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify(answers[request.url ?? '']));
  });
  await new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve));
  issuer = `http://127.0.0.1:${(provider.address() as AddressInfo).port}`;
  holdfast = await Holdfast.start({
    REDIS_URL: store.url,
    OIDC_ISSUER: issuer,
    OIDC_CLIENT_ID: CLIENT,
    OIDC_CLIENT_SECRET: 'a-secret-of-the-client',
    OIDC_ROLES: 'viewer=viewer,admin=admin,viewer=guest',
    OIDC_TENANT_CLAIM: 'holdfast.tenants',
  });
});

afterAll(async () => {
  await holdfast?.stop();
  provider?.closeAllConnections();
  provider?.close();
  await store?.stop();
});

type Forge = (claims: Record<string, unknown>) => string | undefined;

/** Logs in with a token that is made of the claims of a valid one. */
async function logIn(forge: Forge): Promise<Awaited<ReturnType<ConsoleClient['send']>>> {
  const page = new ConsoleClient(holdfast.url);
  const begun = await page.send('POST', '/console/api/provider/begin');
  page.cookie = (begun.headers.get('set-cookie') ?? '').split(';', 1)[0] as string;
  const { searchParams } = new URL(begun.body.url as string);
  const nowS = Math.floor(Date.now() / 1000);
  const claims = {
    iss: issuer,
    aud: CLIENT,
    sub: 'mallory',
    roles: ['admin'],
    holdfast: { tenants: '*' },
    iat: nowS,
    exp: nowS + HOUR_S,
  };
  idToken = forge({ ...claims, nonce: searchParams.get('nonce') });
  const query = new URLSearchParams({ code: 'c', state: searchParams.get('state') as string, iss: issuer });
  return await page.send('POST', '/console/api/provider/finish', { body: { query: query.toString() } });
}

test('a token with the claims of this log-in and the signature of the provider opens a session', async () => {
  const answer = await logIn((claims) => tokenOf(claims, keys.privateKey));
  expect([answer.status, answer.body.session?.name]).toEqual([200, 'oidc:mallory']);
});

test.each<[string, object, object, string]>([
  ['a role is that of the token', { roles: ['viewer'] }, { roles: ['admin'] }, 'viewer oidc:mallory'],
  [
    'a name is that of the token, and a role that it lacks that of the user information',
    { roles: undefined, name: 'Signed' },
    { roles: ['admin'], name: 'Told' },
    'admin oidc:Signed#mallory',
  ],
  [
    'an e-mail address that the token lacks is asked for, although it has the role',
    {},
    { email: 'm@example.com' },
    'admin oidc:m@example.com#mallory',
  ],
  [
    'roles may be the names of an object',
    { roles: { viewer: { org: 'x' }, admin: {} } },
    {},
    'admin oidc:mallory',
  ],
  ['roles may be the words of a text', { roles: 'guest  admin' }, {}, 'admin oidc:mallory'],
  ['of two roles the weaker one first', { roles: ['viewer', 'admin'] }, {}, 'admin oidc:mallory'],
  ['of two roles the weaker one last', { roles: ['admin', 'guest'] }, {}, 'admin oidc:mallory'],
])('%s', async (_what, own, told, expected) => {
  userInfo = told;
  const { body } = await logIn((claims) => tokenOf({ ...claims, ...own }, keys.privateKey));
  expect(`${body.session?.role} ${body.session?.name}`).toBe(expected);
});

test.each<[string, object, readonly string[] | undefined]>([
  ['a list', { holdfast: { tenants: ['acme', 'team-*'] } }, ['acme', 'team-*']],
  ['words, of which some are no tenant', { holdfast: { tenants: 'Acme acme' } }, ['acme']],
  ['a star among others', { holdfast: { tenants: ['acme', '*'] } }, undefined],
])('the tenants of an account are those of the claim: %s', async (_what, own, expected) => {
  userInfo = {};
  const { body } = await logIn((claims) => tokenOf({ ...claims, ...own }, keys.privateKey));
  expect(body.session?.tenants).toEqual(expected);
});

test.each<[string, object]>([
  ['without the claim of tenants', { holdfast: undefined }],
  ['whose claim names no tenant', { holdfast: { tenants: ['Acme Inc.'] } }],
])('an account %s is refused', async (_what, own) => {
  userInfo = {};
  const refused = (): Promise<number> =>
    holdfast.metric('holdfast_provider_log_ins_total', { outcome: 'no_tenant' });
  const before = await refused();
  const answer = await logIn((claims) => tokenOf({ ...claims, ...own }, keys.privateKey));
  expect([answer.status, answer.body.message]).toEqual([403, expect.stringContaining('holdfast.tenants')]);
  expect(await refused()).toBe(before + 1);
});

const STRANGER = newKeys().privateKey;
const forged: readonly (readonly [string, Forge, RegExp])[] = [
  [
    'of another issuer',
    (claims) => tokenOf({ ...claims, iss: 'https://elsewhere.example.com' }, keys.privateKey),
    /another issuer/,
  ],
  [
    'for another client',
    (claims) => tokenOf({ ...claims, aud: 'another' }, keys.privateKey),
    /another client/,
  ],
  [
    'for several clients, used by another',
    (claims) => tokenOf({ ...claims, aud: [CLIENT, 'another'], azp: 'another' }, keys.privateKey),
    /another client/,
  ],
  [
    'of another log-in',
    (claims) => tokenOf({ ...claims, nonce: 'another' }, keys.privateKey),
    /another log-in/,
  ],
  [
    'without a nonce',
    ({ nonce: _, ...claims }) => tokenOf(claims, keys.privateKey),
    /another log-in|lacks a claim/,
  ],
  [
    'that has expired',
    (claims) => tokenOf({ ...claims, exp: (claims['iat'] as number) - HOUR_S }, keys.privateKey),
    /clock .* is behind/,
  ],
  ['that never expires', ({ exp: _, ...claims }) => tokenOf(claims, keys.privateKey), /lacks a claim/],
  ['with the signature of a stranger', (claims) => tokenOf(claims, STRANGER), /no signature/],
  ['without a signature', (claims) => tokenOf(claims, undefined), /signed in a way/],
  ['of nobody', ({ sub: _, ...claims }) => tokenOf(claims, keys.privateKey), /lacks a claim/],
  [
    'that is not valid yet',
    (claims) => tokenOf({ ...claims, nbf: (claims['iat'] as number) + HOUR_S }, keys.privateKey),
    /clock .* is ahead/,
  ],
];
test.each(forged)('a token %s opens none, and says so', async (_what, forge, sentence) => {
  userInfo = {};
  const before = await holdfast.metric('holdfast_provider_log_ins_total', { outcome: 'invalid' });
  const answer = await logIn(forge);
  expect([answer.status, answer.headers.getSetCookie()]).toEqual([401, []]);
  expect(answer.body.message).toMatch(sentence);
  expect(await holdfast.metric('holdfast_provider_log_ins_total', { outcome: 'invalid' })).toBe(before + 1);
});

test('user information of another account opens none, says so, and is no outage of the provider', async () => {
  userInfo = { sub: 'alice' };
  const counted = (): Promise<number[]> =>
    Promise.all(
      ['invalid', 'unavailable'].map((outcome) =>
        holdfast.metric('holdfast_provider_log_ins_total', { outcome }),
      ),
    );
  const [invalid = 0, unavailable = 0] = await counted();
  const answer = await logIn((claims) => tokenOf(claims, keys.privateKey));
  expect([answer.status, answer.body.message]).toEqual([401, expect.stringContaining('another account')]);
  expect(await counted()).toEqual([invalid + 1, unavailable]);
});

test('an answer without a token opens none', async () => {
  const answer = await logIn(() => undefined);
  expect([answer.status, answer.headers.getSetCookie()]).toEqual([401, []]);
});
