import { once } from 'node:events';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { ConsoleClient } from '../support/console-client.js';
import { eventually } from '../support/eventually.js';
import { paste, UpCommand, type RunningUp, type UpResult } from './up-command.js';

// The first start may have to build the service.
jest.setTimeout(180_000);

const SCOPES = [
  'tenant:demo',
  'tenant:demo/workspace:playground',
  'tenant:demo/workspace:playground/agent:writer',
];

/** The figures of a scope in the last table of the output: remaining, reserved, spent, allocated. */
function lastFigures(stdout: string, scope: string): number[] {
  const line = stdout.split('\n').findLast((candidate) => candidate.trim().split(/ +/)[0] === scope) ?? '';
  const figures = line
    .replaceAll(/\([^)]*\)/g, '')
    .trim()
    .split(/ +/)
    .slice(1);
  return figures.map((figure) => Number(figure.replaceAll(',', '')));
}

describe('npm run up -- --once', () => {
  const up = new UpCommand();
  const keyFile = join(up.dataDir, 'demo-api-key');
  let first: UpResult;
  beforeAll(async () => {
    first = await up.run(['--once']);
  });
  afterAll(() => up.cleanUp());

  test('shows a commit, an expiry that returns its budget, and its webhook, and exits 0', () => {
    expect(first).toMatchObject({ code: 0, stderr: '' });
    expect(first.stdout).toMatch(
      /1 {2}Reserve 5,000[^]*2 {2}Commit the 3,200[^]*COMMITTED[^]*3 {2}Reserve 2,000[^]*4 {2}Nobody commits[^]*RESERVATION_EXPIRED[^]*5 {2}The webhook endpoint receives[^]*reservation\.expired evt_[^]*verified/,
    );
    expect(SCOPES.map((scope) => lastFigures(first.stdout, scope))).toEqual([
      [996_800, 0, 3200, 1_000_000],
      [496_800, 0, 3200, 500_000],
      [96_800, 0, 3200, 100_000],
    ]);
  });

  test('stores the API key so that only its owner can read it, and leaves no process behind', async () => {
    expect(statSync(keyFile).mode & 0o777).toBe(0o600);
    expect(await up.isInUse()).toBe(false);
  });

  test('a second start finds the data and the key of the first, with its operators on another port', async () => {
    const key = readFileSync(keyFile, 'utf8');
    const second = await up.run(['--once'], { ADMIN_PORT: '0' });
    expect(second).toMatchObject({ code: 0, stderr: '' });
    expect(second.stdout).toContain('found from an earlier start');
    expect(second.stdout).toContain('3,200 tokens spent so far');
    expect(lastFigures(second.stdout, 'tenant:demo')).toEqual([993_600, 0, 6400, 1_000_000]);
    expect(readFileSync(keyFile, 'utf8')).toBe(key);
  });

  test('a stored key that is no longer valid is replaced', async () => {
    writeFileSync(keyFile, 'cyc_live_nonsense\n');
    const again = await up.run(['--once']);
    expect(again).toMatchObject({ code: 0, stderr: '' });
    expect(again.stdout).toContain('is not valid any more');
    expect(readFileSync(keyFile, 'utf8')).toMatch(/^cyc_live_[0-9A-Za-z]{45}\n$/);
  });

  test('an unexpected result is reported in one line, and the exit code is 1', async () => {
    const result = await up.run(['--once'], {
      ADMIN_API_KEY: 'another-admin-key-0',
      HOLDFAST_ROLES: 'api',
      IDEMPOTENCY_TTL_MS: '60000',
    });
    expect(result.code).toBe(1);
    expect(result.stderr).toMatch(
      /^holdfast: the demonstration failed: expiry: [^\n]*does the role `sweeper` run\?\n$/,
    );
    expect(await up.isInUse()).toBe(false);
  });
});

describe('if npm run up cannot start, it says why in one line', () => {
  const up = new UpCommand();
  afterAll(() => up.cleanUp());

  test('a port that is taken', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const { port } = taken.address() as AddressInfo;
    const { code, stderr } = await up.run(['--once'], { PORT: String(port) });
    taken.close();
    expect(stderr).toMatch(new RegExp(`^holdfast: PORT ${port}[^\\n]*already in use[^\\n]*\\n$`));
    expect(code).toBe(1);
    expect(await up.isInUse()).toBe(false);
  });

  test('a DATA_DIR that cannot be written', async () => {
    const file = join(up.dataDir, 'a-file');
    writeFileSync(file, '');
    const { code, stderr } = await up.run(['--once'], { DATA_DIR: file });
    expect(stderr).toMatch(/^holdfast: DATA_DIR[^\n]*\n$/);
    expect(code).toBe(1);
  });

  test('a Redis that exits immediately', async () => {
    writeFileSync(join(up.dataDir, 'redis-server'), '#!/bin/sh\necho "no room for me"\nexit 3\n', {
      mode: 0o755,
    });
    const { code, stdout, stderr } = await up.run(['--once'], {
      PATH: `${up.dataDir}:${process.env['PATH']}`,
    });
    expect(stderr).toMatch(/^holdfast: [^\n]*no room for me[^\n]*\n$/);
    expect(stdout).not.toContain('DIED');
    expect(code).toBe(1);
  });

  test('an option that does not exist', async () => {
    const { code, stderr } = await up.run(['--twice']);
    expect(stderr).toMatch(/^holdfast: "--twice"[^\n]*--once\n$/);
    expect(code).toBe(1);
  });
});

describe('npm run up', () => {
  const up = new UpCommand();
  let running: RunningUp;
  beforeAll(async () => {
    running = up.start([]);
    await eventually('the demonstration ends', () => running.stdout.includes('^C stops it'), 120_000);
  });
  afterAll(() => up.cleanUp());

  test('the lines that it offers work when they are pasted', () => {
    const pasted = paste(running.pasteLines);
    expect(pasted.stdout).toMatch(
      /^{"balances"[^]*"decision":"ALLOW"[^]*"status":"COMMITTED","charged":{"unit":"TOKENS","amount":900}[^]*"tenants"/,
    );
    expect(pasted.stdout).toContain('cycles_reservations_commit_total');
    expect(pasted).toMatchObject({ code: 0, stderr: '' });
  });

  test('the printed address and key open the console', async () => {
    const [, url = '', keyFile = ''] =
      /open (http:\S+)\/console and log in with the admin key, which is in (\S+)\.\n/.exec(running.stdout) ??
      [];
    expect(await (await fetch(`${url}/console`)).text()).toContain('<title>Holdfast</title>');
    const { body } = await new ConsoleClient(url).logIn(readFileSync(keyFile, 'utf8').trim());
    expect(body).toMatchObject({ session: { role: 'admin' } });
  });

  test("the README's first session works when it is pasted", () => {
    const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8');
    const session = /## A first session[^]*?```sh\n([^]*?)```/.exec(readme)?.[1] ?? '';
    const url = /URL=(\S+)/.exec(running.pasteLines)?.[1] ?? '';
    const pasted = paste(session.replace('http://127.0.0.1:7878', url).replace('.data/', `${up.dataDir}/`));
    expect(pasted.stdout).toMatch(
      /"tenant_id":"acme"[^]*"ledger_id"[^]*"decision":"ALLOW"[^]*"status":"COMMITTED"[^]*"remaining":{"unit":"TOKENS","amount":9360}/,
    );
    expect(pasted).toMatchObject({ code: 0, stderr: '' });
  });

  test('the lines about periods in docs/budgets.md work in their order after the first session', () => {
    const page = readFileSync(new URL('../../docs/budgets.md', import.meta.url), 'utf8');
    const url = /URL=(\S+)/.exec(running.pasteLines)?.[1] ?? '';
    const [, periods = ''] = /^## Periods$([^]*?)^## Windows$/m.exec(page) ?? [];
    const lines = [...periods.matchAll(/```sh\n([^]*?)```/g)].map(([, block]) => block).join('\n');
    const session = `
URL=${url}
ADMIN=$(cat ${up.dataDir}/admin-api-key)
KEY=$(curl -s $URL/v1/admin/api-keys -H "X-Admin-API-Key: $ADMIN" -H 'Content-Type: application/json' \
  -d '{"tenant_id":"acme","name":"periods"}' | sed 's/.*"key_secret":"\\([^"]*\\)".*/\\1/')
${lines}`;
    const pasted = paste(session);
    expect(pasted.stdout).toMatch(/"ledger_id"[^]*"next_boundaries"[^]*"period_end"/);
    expect(pasted.stdout).not.toContain('"error"');
    expect(pasted).toMatchObject({ code: 0, stderr: '' });
  });

  test('the lines of docs/webhooks.md work when they are pasted, with the endpoint that it shows', () => {
    const page = readFileSync(new URL('../../docs/webhooks.md', import.meta.url), 'utf8');
    const [, endpoint = ''] = /```js\n\/\/ receive\.mjs\n([^]*?)```/.exec(page) ?? [];
    const [first = '', second = ''] = [...page.matchAll(/```sh\n([^]*?)```/g)].map(
      ([, lines]) => lines as string,
    );
    const file = join(up.dataDir, 'receive.mjs');
    writeFileSync(
      file,
      endpoint
        .replace('9000', '0')
        .replace(
          /\)\.listen\((.*)\);/,
          ').listen($1, function () { console.log(`port ${this.address().port}.`); });',
        ),
    );
    const output = join(up.dataDir, 'received');
    // The port is known only once the endpoint is running, and its secret only once it is subscribed. So the
    // endpoint waits for a file with the secret.
    const [allow = '', rest = ''] = first.split(/(?<=\n)(?=SUB=)/);
    expect(rest).toContain('node receive.mjs "$SECRET" & sleep 1');
    const session = `
URL=${/URL=(\S+)/.exec(running.pasteLines)?.[1]}
ADMIN=$(cat ${up.dataDir}/admin-api-key)
json='Content-Type: application/json'
export SECRET=whsec_${Buffer.alloc(32, 9).toString('base64')}
: > ${output}
node ${file} "$SECRET" > ${output} & ENDPOINT=$!
until grep -q 'port' ${output}; do sleep 0.1; done
PORT=$(sed -n 's/port \\(.*\\)\\./\\1/p' ${output})
${allow.replaceAll('9000', "'$PORT'")}
${rest
  .replaceAll('9000', "'$PORT'")
  .replace('node receive.mjs "$SECRET" & sleep 1', '')
  .replace('"event_types"', '"signing_secret":"\'$SECRET\'","event_types"')
  .replace(/SECRET=\$\(.*\n/, '')}
${second}
until grep -q budget.created ${output}; do sleep 0.1; done
kill $ENDPOINT`;
    const pasted = paste(session);
    expect(pasted.stdout).toMatch(
      /"allow_http":true[^]*"success":true,"response_status":204[^]*"events_queued":[1-9][^]*"deliveries":\[{/,
    );
    expect(pasted).toMatchObject({ code: 0, stderr: '' });
    expect(readFileSync(output, 'utf8')).toContain('system.webhook_test');
  });

  test('says when the connection to Redis was lost, and when it is back', async () => {
    const redis = new Redis({ path: join(up.dataDir, 'redis', 'redis.sock') });
    const pid = Number(/process_id:(\d+)/.exec(await redis.info('server'))?.[1]);
    redis.disconnect();
    process.kill(pid, 'SIGKILL');
    const line = (text: string): RegExp => new RegExp(`^holdfast: \\d{4}-[-:.T\\d]+Z warn: ${text}`, 'm');
    await eventually('it is back', () =>
      line('the connection to Redis is back \\(after \\d+ ms\\)$').test(running.stdout),
    );
    expect(running.stdout).toMatch(line('lost the connection to Redis; reconnecting'));
  });

  test('stops at ^C with exit code 0, tops up used budgets at the next start, and ends when its wrapper is killed', async () => {
    const drained = running.pasteLines
      .replace('"amount":1500', '"amount":90000')
      .replace('"amount":900}', '"amount":90000}');
    expect(paste(drained.replace(/hold-|commit-/g, (name) => `big-${name}`)).stdout).toContain(
      '"amount":90000',
    );
    running.kill('SIGINT');
    expect(await running.ended).toMatchObject({ code: 0, stderr: '' });
    expect(await up.isInUse()).toBe(false);

    const next = up.start([]);
    await eventually('the demonstration ends', () => next.stdout.includes('^C stops it'), 60_000);
    expect(next.stdout).toContain('agent:writer was nearly used up, and got 100,000 more');
    next.kill('SIGKILL');
    await eventually('the service has noticed and has stopped', async () => !(await up.isInUse()));
  });
});
