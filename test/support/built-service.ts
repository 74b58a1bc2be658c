import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Constants } from '../../src/config/index.js';
import { eventually } from './eventually.js';
import { separate, type Settings } from './settings.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/**
 * Next to dist, so that a test never runs an old build and never disturbs the current one; at the same depth,
 * so that the code finds lua/.
 */
const BUILD = '.test-dist';
const STOP_WITH_PARENT = pathToFileURL(join(ROOT, 'scripts/stop-with-parent.mjs')).href;
const CONSTANTS = pathToFileURL(join(ROOT, BUILD, 'config/constants.js')).href;
const LOCK_POLL_MS = 100;

export interface ServiceProcess {
  readonly child: ChildProcess;
  /** Everything that the process has written so far. */
  readonly output: { stdout: string; stderr: string };
  /** Resolves with the exit code, or the signal's name. */
  readonly ended: Promise<number | string>;
}

/**
 * Compiles the sources as `npm run build` does. A lock lets one test file compile at a time, so that none
 * starts a service from half-written files. Throws the compiler's output if it fails.
 */
export function buildService(): void {
  // Compiling once is enough: the sources do not change during a run.
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

/** Whether this process has taken the lock. Removes a lock that a dead process left. */
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

/** A module that changes constants of the service before it reads them. */
function changing(constants: Partial<Constants>): string {
  const code = `import { CONSTANTS } from '${CONSTANTS}'; Object.assign(CONSTANTS, ${JSON.stringify(constants)});`;
  return `data:text/javascript,${encodeURIComponent(code)}`;
}

/**
 * Runs main.js of the build with exactly these settings, plus PATH and TMPDIR. The caller must stop it; it
 * also ends with its parent.
 */
export function spawnService(settings: Settings): ServiceProcess {
  const { env, constants } = separate(settings);
  const before = [STOP_WITH_PARENT, changing(constants)].flatMap((module) => ['--import', module]);
  const child = spawn(process.execPath, [...before, join(ROOT, BUILD, 'main.js')], {
    env: { PATH: process.env['PATH'] ?? '', TMPDIR: tmpdir(), ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  child.stdin.on('error', () => undefined);
  const output = { stdout: '', stderr: '' };
  child.stdout.on('data', (chunk: Buffer) => (output.stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (output.stderr += chunk.toString()));
  const ended = once(child, 'close').then(([code, signal]) => (code ?? signal) as number | string);
  return { child, output, ended };
}

/**
 * Starts the service on a free loopback port and waits until it listens. It recognizes that by a line of the
 * log, so LOG_LEVEL must not be above info.
 */
export async function startService(settings: Settings): Promise<ServiceProcess & { readonly url: string }> {
  const service = spawnService({ HOST: '127.0.0.1', PORT: '0', ...settings });
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
