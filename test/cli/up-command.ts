import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { patience } from '../support/time-limits.js';

const UP = fileURLToPath(new URL('../../scripts/up.mjs', import.meta.url));
/** A developer's settings for their own Holdfast must not reach those of the tests. */
const KEPT_ENVIRONMENT = ['PATH', 'HOME', 'TMPDIR'];

export interface UpResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** `npm run up` without npm, with a separate data directory and a free port. */
export class UpCommand {
  readonly dataDir = mkdtempSync(join(tmpdir(), 'holdfast-up-'));
  private readonly children = new Set<ChildProcess>();

  start(args: readonly string[], env: Record<string, string> = {}): RunningUp {
    const kept = KEPT_ENVIRONMENT.flatMap((name) =>
      process.env[name] === undefined ? [] : [[name, process.env[name]]],
    );
    const child = spawn(process.execPath, [UP, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...Object.fromEntries(kept), PORT: '0', HOST: '127.0.0.1', DATA_DIR: this.dataDir, ...env },
    });
    this.children.add(child);
    child.once('close', () => this.children.delete(child));
    return new RunningUp(child);
  }

  async run(args: readonly string[], env: Record<string, string> = {}): Promise<UpResult> {
    return this.start(args, env).ended;
  }

  /** Whether a Holdfast or its Redis is still using the data directory. */
  async isInUse(): Promise<boolean> {
    const socket = connect(join(this.dataDir, 'redis', 'redis.sock'));
    const answers = await new Promise<boolean>((done) => {
      socket.once('connect', () => done(true));
      socket.once('error', () => done(false));
    });
    socket.destroy();
    return answers || existsSync(join(this.dataDir, 'holdfast.lock'));
  }

  cleanUp(): void {
    for (const child of this.children) {
      child.kill('SIGTERM');
    }
    rmSync(this.dataDir, { recursive: true, force: true });
  }
}

export class RunningUp {
  stdout = '';
  readonly ended: Promise<UpResult>;

  constructor(private readonly child: ChildProcess) {
    let stderr = '';
    child.stdout?.setEncoding('utf8').on('data', (text: string) => (this.stdout += text));
    child.stderr?.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    this.ended = new Promise((done) =>
      child.once('close', (code) => done({ code, stdout: this.stdout, stderr })),
    );
  }

  kill(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  /** The lines that its output offers for pasting. */
  get pasteLines(): string {
    return this.stdout
      .split('\n')
      .filter((line) => line.startsWith('    '))
      .join('\n');
  }
}

/** Runs these lines in a shell, as if pasted at once. */
export function paste(lines: string): UpResult {
  const { status, stdout, stderr } = spawnSync('sh', ['-c', lines], {
    encoding: 'utf8',
    timeout: patience(30_000),
  });
  return { code: status, stdout, stderr };
}
