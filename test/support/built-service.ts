import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** Beside dist, so that a test never runs an old build nor disturbs the current one; as deep, so that it finds lua/. */
const BUILD = '.test-dist';

export interface ServiceProcess {
  readonly child: ChildProcess;
  /** Everything the process wrote so far. */
  readonly output: { stdout: string; stderr: string };
  /** Resolves with the exit code, or the signal's name. */
  readonly ended: Promise<number | string>;
}

/** Compiles the sources as `npm run build` does. Throws what the compiler says. */
export function buildService(): void {
  const compiler = join(ROOT, 'node_modules/typescript/bin/tsc');
  const { status, stdout } = spawnSync(process.execPath, [compiler, '-p', 'tsconfig.json', '--outDir', BUILD, '--incremental'], { cwd: ROOT, encoding: 'utf8' });
  if (status !== 0) {
    throw new Error(stdout);
  }
}

/** Runs main.js of the build with exactly this environment (and PATH). Whoever starts it ends it. */
export function spawnService(env: Record<string, string>): ServiceProcess {
  const child = spawn(process.execPath, [join(ROOT, BUILD, 'main.js')], {
    env: { PATH: process.env['PATH'] ?? '', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = { stdout: '', stderr: '' };
  child.stdout.on('data', (chunk: Buffer) => (output.stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (output.stderr += chunk.toString()));
  const ended = once(child, 'close').then(([code, signal]) => (code ?? signal) as number | string);
  return { child, output, ended };
}
