import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { buildService } from '../support/built-service.js';
import { eventually } from '../support/eventually.js';
import { patience, setTimeFactor, slowness } from '../support/time-limits.js';

/* Runs of jest inside this one, on files that `npm test` does not run, to see how they end. */

jest.setTimeout(180_000);

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const COMMANDS = {
  'npm test': ['scripts/test.mjs'],
  jest: ['node_modules/jest/bin/jest.js'],
} as const;

interface Started {
  readonly kind?: string;
  readonly pid?: number;
  readonly folder?: string;
  readonly runner?: number;
}

interface FixtureRun {
  readonly child: ChildProcess;
  readonly folder: string;
  readonly log: string;
  readonly output: { text: string };
  readonly ended: Promise<unknown>;
}

const children: ChildProcess[] = [];

beforeAll(buildService);

const folders: string[] = [];

afterEach(() => {
  children.splice(0).forEach((child) => child.kill('SIGKILL'));
  folders.splice(0).forEach((folder) => rmSync(folder, { recursive: true, force: true }));
});

/** Outside the outer run's folder, because the path of a Redis socket has at most 107 characters. */
function newFolder(name: string): string {
  const folder = mkdtempSync(`/tmp/${name}-`);
  folders.push(folder);
  return folder;
}

function run(command: keyof typeof COMMANDS, fixture: string, env: Record<string, string>): FixtureRun {
  const folder = newFolder('runs');
  const log = join(folder, 'log');
  const {
    TEST_RUN_FOLDER: _run,
    TEST_REDIS_URL: _redis,
    TEST_TOPOLOGY: _topology,
    ...inherited
  } = process.env;
  const child = spawn(
    process.execPath,
    [...COMMANDS[command], '--testMatch', `**/${fixture}.fixture.ts`, '--maxWorkers=2'],
    {
      cwd: ROOT,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...inherited, TMPDIR: folder, FIXTURE_LOG: log, ...env },
    },
  );
  children.push(child);
  const output = { text: '' };
  child.stdout.on('data', (chunk: Buffer) => (output.text += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (output.text += chunk.toString()));
  return { child, folder, log, output, ended: once(child, 'exit') };
}

function startedBy({ log }: FixtureRun): Started[] {
  return existsSync(log)
    ? readFileSync(log, 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Started)
    : [];
}

/** A zombie does not count as alive: only its process id is left. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !existsSync('/proc/self') || !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

/** Expects that everything the fixture started is gone, and its whole folder for temporary files, too. */
async function expectNothingLeft(fixture: FixtureRun): Promise<void> {
  const started = startedBy(fixture);
  const kinds = started.flatMap(({ kind }) => kind ?? []);
  expect(kinds.slice(0, 7)).toEqual([
    'redis',
    'service',
    'service with its own Redis',
    'embedded redis',
    'a shell in its own process group',
    "the shell's child",
    'worker of jest',
  ]);
  const left = (): unknown[] => [
    ...started.filter(
      ({ pid, folder }) =>
        (pid !== undefined && isAlive(pid)) || (folder !== undefined && existsSync(folder)),
    ),
    ...readdirSync(fixture.folder).filter((name) => name !== 'log'),
  ];
  await eventually('nothing is left', () => {
    if (left().length > 0) {
      throw new Error(JSON.stringify(left()));
    }
    return true;
  });
}

const isReady = (fixture: FixtureRun) => (): boolean =>
  startedBy(fixture).some(({ runner }) => runner !== undefined);

test.each(['hook', 'timeout'])(
  'a run whose %s fails leaves no process and no file behind',
  async (ending) => {
    const fixture = run('npm test', '{leaky,idle}', { FIXTURE: ending });
    const [code] = (await fixture.ended) as [number];
    expect(fixture.output.text).toContain(ending === 'hook' ? 'the hook fails' : 'Exceeded timeout');
    await expectNothingLeft(fixture);
    expect(fixture.output.text).toMatch(/\n1 skipped: this is only a fixture\n1 passed, 1 failed\n/);
    expect(fixture.output.text).toMatch(/^2 test files, about \d+ s left$/m);
    expect(fixture.output.text).toMatch(/left running by the tests, killed after \d+ ms: [^\n]*sleep 600/);
    expect(code).toBe(1);
  },
);

test.each([
  ['npm test', 'SIGINT'],
  ['npm test', 'SIGKILL'],
  ['jest', 'SIGTERM'],
  ['jest', 'SIGKILL'],
] as const)('%s that gets %s leaves no process and no file behind', async (command, signal) => {
  const fixture = run(command, '{leaky,idle}', { FIXTURE: 'wait' });
  await eventually('everything runs', isReady(fixture), 120_000);
  fixture.child.kill(signal);
  await fixture.ended;
  await expectNothingLeft(fixture);
});

test('a jest that is killed under `npm test` leaves no process and no file behind, and counts as failed', async () => {
  const fixture = run('npm test', '{leaky,idle}', { FIXTURE: 'wait' });
  await eventually('everything runs', isReady(fixture), 120_000);
  const [{ runner }] = startedBy(fixture).slice(-1) as [Started];
  process.kill(runner as number, 'SIGKILL');
  expect(await fixture.ended).toEqual([1, null]);
  await expectNothingLeft(fixture);
  expect(fixture.output.text).toMatch(/\n0 passed, 1 failed\n/);
});

test('what a run inside a guarded folder has elsewhere is removed with it, even if the guard of that folder acts first', async () => {
  const [folder, elsewhere] = [newFolder('runs'), newFolder('runs-elsewhere')] as const;
  const guard = spawn(process.execPath, [join(ROOT, 'scripts/run-guard.mjs'), folder], {
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  // Like Redis, the inner process shows no environment, and works in the folder for files in memory.
  const inner = `
    const { openRun } = await import(${JSON.stringify(join(ROOT, 'scripts/test-run.mjs'))});
    const { spawn } = await import('node:child_process');
    openRun();
    console.log(spawn('/bin/sleep', ['600'], { cwd: process.env.TEST_MEMORY_FOLDER, env: {}, stdio: 'ignore' }).pid);
    setInterval(() => undefined, 1000);`;
  const env = { ...process.env, TMPDIR: folder, TEST_MEMORY_FOLDER: elsewhere };
  const run = spawn(process.execPath, ['--input-type=module', '-e', inner], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.push(guard, run);
  const [line] = (await once(run.stdout, 'data')) as [Buffer];
  const ended = once(guard, 'exit');
  guard.stdin.end();
  await ended;
  expect([
    isAlive(Number(line)),
    isAlive(run.pid as number),
    existsSync(folder),
    readdirSync(elsewhere),
  ]).toEqual([false, false, false, []]);
});

test.each([
  ['1', /Tests: +4 failed/],
  // So long that no pause of a busy machine exceeds it.
  ['100', /Tests: +4 passed/],
])('every limit is %s times as long if the machine is that much slower', async (factor, outcome) => {
  const fixture = run('jest', 'limits', { TEST_TIME_FACTOR: factor });
  await fixture.ended;
  expect(fixture.output.text).toMatch(outcome);
});

test('busy processors make the measured limits longer', async () => {
  // Other tests run at the same time, so a single measurement before or after could be far off.
  const before = Math.min(await slowness(), await slowness(), await slowness());
  const loops = Array.from({ length: 4 * os.availableParallelism() }, () =>
    spawn(process.execPath, ['-e', 'for (;;) {}'], { stdio: 'ignore' }),
  );
  children.push(...loops);
  expect(Math.max(await slowness(), await slowness())).toBeGreaterThan(1.3 * before);
});

describe('the factor of a run', () => {
  const before = { ...process.env };
  beforeEach(() => {
    delete process.env['TEST_TIME_FACTOR'];
  });
  afterEach(() => {
    jest.restoreAllMocks();
    delete process.env['TEST_TIME_FACTOR'];
    Object.assign(process.env, before);
  });

  test('is measured once', async () => {
    process.env['TEST_MEASURED_FACTOR'] = '1.5';
    await setTimeFactor();
    expect(process.env['TEST_MEASURED_FACTOR']).toBe('1.5');
    jest.spyOn(os, 'loadavg').mockReturnValue([0, 0, 0]);
    expect(patience(1000)).toBe(1500);
  });

  test('grows with the load, up to a limit', () => {
    process.env['TEST_MEASURED_FACTOR'] = '1.5';
    const load = jest.spyOn(os, 'loadavg').mockReturnValue([3 * os.availableParallelism(), 0, 0]);
    expect(patience(1000)).toBe(3000);
    load.mockReturnValue([1000 * os.availableParallelism(), 0, 0]);
    expect(patience(1000)).toBe(20_000);
  });

  test('is the one that is given, whatever the load is', () => {
    process.env['TEST_TIME_FACTOR'] = '1';
    jest.spyOn(os, 'loadavg').mockReturnValue([1000, 0, 0]);
    expect(patience(1000)).toBe(1000);
  });
});
