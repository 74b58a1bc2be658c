import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { verifyEvidence } from '../../src/cli/verify-evidence.js';
import { type Envelope, seal } from '../../src/evidence/envelope.js';

const { privateKey, publicKey } = generateKeyPairSync('ed25519');
const x = publicKey.export({ format: 'jwk' }).x as string;
const signer = Buffer.from(x, 'base64url').toString('hex');
const keySet = JSON.stringify({ keys: [{ kty: 'OKP', crv: 'Ed25519', kid: 'k', x, cycles_nbf_ms: 0 }] });

const dir = mkdtempSync(join(tmpdir(), 'holdfast-evidence-'));
const file = join(dir, 'envelope.json');
const keysFile = join(dir, 'keys.json');

let server: Server;
let serverId: string;
let envelope: Envelope;

beforeAll(async () => {
  server = createServer((request, response) => {
    const text =
      request.url === '/v1/.well-known/cycles-jwks.json'
        ? keySet
        : request.url?.startsWith('/v1/evidence/') === true
          ? envelope.text
          : undefined;
    response.writeHead(text === undefined ? 404 : 200).end(text);
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  serverId = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  const payload = { request: {}, response: {} };
  const traceId = '0'.repeat(32);
  envelope = seal(
    { artifact: 'decide', payload, issuedAtMs: 1_800_000_000_000, traceId, serverId, signer },
    privateKey,
  );
  writeFileSync(file, envelope.text);
  writeFileSync(keysFile, keySet);
});
afterAll(() => {
  server.close();
  rmSync(dir, { recursive: true });
});

async function verify(
  source: string,
  more: { keys?: string; signer?: string } = {},
): Promise<[number, string]> {
  const lines: string[] = [];
  const code = await verifyEvidence({ source, ...more, print: (line) => lines.push(line) });
  return [code, lines.join('\n')];
}

test('an envelope in a file is verified without its server, and with its keys it is authentic', async () => {
  const [code, text] = await verify(file);
  expect(code).toBe(3);
  expect(text).toBe(`binding_only: no key set was asked whether the signer is the server’s
  decide ${envelope.evidenceId}
  issued at 1800000000000 ms (2027-01-15T08:00:00.000Z) by ${serverId}
  signer ${signer}`);
  expect(await verify(file, { keys: keysFile })).toEqual([0, expect.stringMatching(/^authentic\n/)]);
  expect(await verify(file, { keys: `${serverId}/.well-known/cycles-jwks.json` })).toEqual([
    0,
    expect.stringMatching(/^authentic\n/),
  ]);
});

test('an envelope at a URL is verified with the keys of its server, and must be the one that the URL names', async () => {
  expect(await verify(`${serverId}/evidence/${envelope.evidenceId}`)).toEqual([
    0,
    expect.stringMatching(/^authentic\n/),
  ]);
  expect(await verify(`${serverId}/evidence/${'0'.repeat(64)}`)).toEqual([
    1,
    expect.stringContaining('THE URL NAMES ANOTHER ENVELOPE'),
  ]);
});

test('an envelope that cannot be read is not verified, and one line says why', async () => {
  expect(await verify(`${serverId}/nothing`)).toEqual([
    2,
    `the envelope cannot be read: GET ${serverId}/nothing answered 404`,
  ]);
  const missing = join(dir, 'missing.json');
  expect(await verify(missing)).toEqual([
    2,
    `the envelope cannot be read: ENOENT: no such file or directory, open '${missing}'`,
  ]);
  expect(await verify('http://127.0.0.1:9/v1/evidence/x')).toEqual([
    2,
    expect.stringMatching(/^the envelope cannot be read: [^\n]*(?:ECONNREFUSED|bad port)[^\n]*$/),
  ]);
});

test('an envelope with a member twice is malformed, whichever of the two is genuine', async () => {
  const forged = join(dir, 'forged.json');
  for (const [from, to] of [
    ['"payload":', '"payload":{"decide":{}},"payload":'],
    ['"server_id":', '"server_id":"https://forged.example","server_id":'],
    ['"request":{', '"request":{"a":1,"\\u0061":2'],
  ] as const) {
    writeFileSync(forged, envelope.text.replace(from, to));
    expect(await verify(forged, { keys: keysFile })).toEqual([
      1,
      expect.stringMatching(/^malformed: it has the member "\w+" twice$/),
    ]);
  }
});

test('a changed envelope, an unexpected signer and unreadable keys have their own exit codes', async () => {
  const changed = join(dir, 'changed.json');
  writeFileSync(changed, envelope.text.replace('1800000000000', '1800000000001'));
  expect(await verify(changed)).toEqual([
    1,
    expect.stringMatching(/^signature_invalid: evidence_id is not the hash/),
  ]);
  writeFileSync(changed, '{}');
  expect(await verify(changed)).toEqual([1, 'malformed: schema_version is missing or not valid']);
  expect(await verify(file, { signer })).toEqual([0, expect.stringContaining(`${signer}, as expected`)]);
  expect(await verify(file, { signer: '0'.repeat(64) })).toEqual([
    1,
    expect.stringContaining('NOT THE EXPECTED ONE'),
  ]);
  expect(await verify(file, { keys: join(dir, 'none.json') })).toEqual([
    2,
    expect.stringMatching(/^signer_resolution_failed/),
  ]);
});
