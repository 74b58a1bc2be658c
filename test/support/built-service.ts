import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { eventually } from './eventually.js';
import { storeSettings } from './store.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** Beside dist, so that a test never runs an old build nor disturbs the current one; as deep, so that it finds lua/. */
const BUILD = '.test-dist';
const STOP_WITH_PARENT = pathToFileURL(join(ROOT, 'scripts/stop-with-parent.mjs')).href;
const LOCK_POLL_MS = 100;

export interface ServiceProcess {
  readonly child: ChildProcess;
  /** Everything the process wrote so far. */
  readonly output: { stdout: string; stderr: string };
  /** Resolves with the exit code, or the signal's name. */
  readonly ended: Promise<number | string>;
}

/**
 * Compiles the sources as `npm run build` does, one test file at a time: none may start a service from files that another is
 * writing. Throws what the compiler says.
 */
export function buildService(): void {
  // Once is enough: a run tests one state of the sources.
  const built = process.env['TEST_BUILT_MARK'] ?? '';
  const lock = join(ROOT, BUILD, 'building');
  mkdirSync(join(ROOT, BUILD), { recursive: true });
  while (!isTaken(lock)) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LOCK_POLL_MS);
  }
  try {
    if (existsSync(built)) {
      return;
    }
    const compiler = join(ROOT, 'node_modules/typescript/bin/tsc');
    const { status, stdout } = spawnSync(
      process.execPath,
      [compiler, '-p', 'tsconfig.json', '--outDir', BUILD, '--incremental'],
      { cwd: ROOT, encoding: 'utf8' },
    );
    if (status !== 0) {
      throw new Error(stdout);
    }
    writeFileSync(built, '');
  } finally {
    rmSync(lock, { force: true });
  }
}

/** Whether this process has the lock now. One that a dead process left is removed. */
function isTaken(lock: string): boolean {
  try {
    writeFileSync(lock, String(process.pid), { flag: 'wx' });
    return true;
  } catch {
    const owner = Number(readOrEmpty(lock));
    if (owner > 0 && !isAlive(owner)) {
      rmSync(lock, { force: true });
    }
    return false;
  }
}

function readOrEmpty(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Runs main.js of the build with exactly this environment (and PATH and TMPDIR). Whoever starts it ends it; at the latest it ends with its parent. */
export function spawnService(env: Record<string, string>): ServiceProcess {
  const child = spawn(process.execPath, ['--import', STOP_WITH_PARENT, join(ROOT, BUILD, 'main.js')], {
    env: { PATH: process.env['PATH'] ?? '', TMPDIR: tmpdir(), ...storeSettings(env) },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  child.stdin.on('error', () => undefined);
  const output = { stdout: '', stderr: '' };
  child.stdout.on('data', (chunk: Buffer) => (output.stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (output.stderr += chunk.toString()));
  const ended = once(child, 'close').then(([code, signal]) => (code ?? signal) as number | string);
  return { child, output, ended };
}

/** Runs it on a free port of loopback until it listens. Its log must tell of that, which it does unless LOG_LEVEL is above info. */
export async function startService(
  env: Record<string, string>,
): Promise<ServiceProcess & { readonly url: string }> {
  const service = spawnService({ HOST: '127.0.0.1', PORT: '0', ...env });
  let over = false;
  void service.ended.then(() => (over = true));
  const port = await eventually(
    'the service listens',
    () => over || /"port":(\d+)[^\n]*holdfast is listening/.exec(service.output.stdout)?.[1],
  );
  if (port === true) {
    throw new Error(`the service did not start: ${service.output.stderr}`);
  }
  return { ...service, url: `http://127.0.0.1:${port}` };
}
