import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { listen } from '../../src/http/listening.js';
import { startProbeApp } from '../http/probe-app.js';
import { ADMIN_API_KEY, Holdfast } from '../support/holdfast.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

let holdfast: Holdfast;
beforeAll(async () => {
  holdfast = await Holdfast.start();
});
afterAll(() => holdfast.stop());

/** What `npm run example` prints, without npm. */
async function example(
  name: string,
  env: Readonly<Record<string, string>> = { HOLDFAST_URL: holdfast.url },
): Promise<{ code: number; output: string }> {
  const child = spawn(process.execPath, [join(ROOT, 'examples/run.mjs'), name], {
    env: { PATH: process.env['PATH'] ?? '', ADMIN_API_KEY, ...env },
  });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number];
  return { code, output };
}

test('the AI SDK in a small program spends until it is refused, and is not retried', async () => {
  const { code, output } = await example('ai-sdk');
  expect([code, output]).toEqual([0, expect.stringContaining('Call 1: The answer is 42. (80 tokens)')]);
  const [, last] = /Call (\d+): Denied by the budget/.exec(output) ?? [];
  expect(output).toContain('BUDGET_EXCEEDED with status 402, worth a retry: no');
  expect(output).toContain('As a stream: Denied by the budget');
  // What was refused was not billed, and each call costs 20 tokens at $0.5 and 60 at $2 a million.
  const calls = Number(last) - 1;
  expect(output).toContain(`The provider billed ${calls} calls.`);
  expect(output).toContain(`spent $${(calls * 0.00013).toFixed(6)} of $0.001000, held $0.000000`);
  expect(calls).toBe(6);
  // Once by each of the two calls that were refused: neither was retried.
  expect(output).toContain('denied: 2\n');
  // The command compiles the package first.
}, 120_000);

test('a Holdfast with an ADMIN_PORT is asked there, and elsewhere a line says so', async () => {
  const probe = await startProbeApp({ listen: false, env: { ADMIN_API_KEY } });
  const { port, adminPort, close } = await listen(probe.app, { host: '127.0.0.1', port: 0, adminPort: 0 });
  try {
    const ports = { PORT: String(port), ADMIN_PORT: String(adminPort) };
    expect(await example('ai-sdk', { HOLDFAST_URL: '', ...ports })).toMatchObject({
      code: 0,
      output: expect.stringContaining('The provider billed 6 calls.'),
    });
    const url = `http://127.0.0.1:${port}`;
    const line = (end: string): unknown =>
      expect.stringMatching(new RegExp(`^holdfast: POST ${url}/v1/admin/tenants: .+; ${end}\n$`));
    expect(await example('ai-sdk', { HOLDFAST_URL: url })).toEqual({
      code: 1,
      output: line('if it has an ADMIN_PORT, name that in HOLDFAST_URL'),
    });
  } finally {
    await close(0);
    await probe.close();
  }
}, 120_000);

test('another admin key is one line', async () => {
  expect(
    await example('ai-sdk', { HOLDFAST_URL: `${holdfast.url}/`, ADMIN_API_KEY: 'of-another-holdfast' }),
  ).toEqual({
    code: 1,
    output: expect.stringMatching(
      /^holdfast: .*\b401\b.*; ADMIN_API_KEY, .* is not that of this Holdfast\n$/,
    ),
  });
}, 120_000);

test('an unknown example is one line', async () => {
  expect(await example('none')).toEqual({
    code: 1,
    output: 'holdfast: name one example: ai-sdk, litellm, openai\n',
  });
});
