import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { patience } from './time-limits.ts';

export interface RedisOptions {
  readonly appendonly?: boolean;
  readonly maxmemory?: string;
  readonly policy?: string;
  readonly password?: string;
  readonly tls?: { readonly cert: string; readonly key: string };
  readonly port?: number;
  /** Kept at the end if given; otherwise a temporary directory that is removed. */
  readonly dir?: string;
  readonly args?: readonly string[];
  /** A command that runs `redis-server`: it prepares the process and then executes it. */
  readonly launcher?: readonly string[];
}

export interface RedisServer {
  readonly host: string;
  readonly port: number;
  readonly url: string;
  readonly dir: string;
  readonly pid: number;
  /** Shuts it down cleanly and removes its temporary directory. */
  stop(): Promise<void>;
  /** SIGKILL; the directory stays for `restart`. */
  kill(): Promise<void>;
  /** SIGSTOP: connections stay open, but nothing replies. */
  pause(): void;
  resume(): void;
  /** Stops it if it is still running, and starts it again with the same port and directory. */
  restart(): Promise<void>;
}

const HOST = '127.0.0.1';
const STOP_TIMEOUT_MS = 5000;
const ATTEMPTS = 10;

const running = new Set<RedisServer>();

/** For afterEach and afterAll: stops everything that a test started, even if the test failed. */
export async function stopAllRedis(): Promise<void> {
  await Promise.all([...running].map((server) => server.stop()));
}

/** A port that was free a moment ago. The caller must be ready to try another one. */
export async function findFreePort(): Promise<number> {
  const probe = createServer();
  probe.listen(0, HOST);
  await once(probe, 'listening');
  const address = probe.address();
  probe.close();
  await once(probe, 'close');
  return typeof address === 'object' && address !== null ? address.port : 0;
}

/** Starts a real redis-server on loopback and waits until it accepts connections. */
export function startRedis(options: RedisOptions = {}): Promise<RedisServer> {
  return startProcess(
    options,
    (port, dir) => serverArguments(options, port, dir),
    /Ready to accept connections/,
  );
}

/**
 * Starts a redis-server in Sentinel mode. `configure` writes its configuration file into the directory and
 * returns the path. Sentinels require such a file because they rewrite it.
 */
export function startSentinelProcess(configure: (port: number, dir: string) => string): Promise<RedisServer> {
  return startProcess({}, (port, dir) => [configure(port, dir), '--sentinel'], /Sentinel ID is/);
}

function serverArguments(options: RedisOptions, port: number, dir: string): string[] {
  const settings: Record<string, string> = {
    bind: HOST,
    dir,
    save: '',
    appendonly: options.appendonly === true ? 'yes' : 'no',
    'maxmemory-policy': options.policy ?? 'noeviction',
    port: options.tls === undefined ? String(port) : '0',
    ...(options.maxmemory === undefined ? {} : { maxmemory: options.maxmemory }),
    ...(options.password === undefined
      ? {}
      : { requirepass: options.password, masterauth: options.password }),
    ...(options.tls === undefined
      ? {}
      : {
          'tls-port': String(port),
          'tls-cert-file': options.tls.cert,
          'tls-key-file': options.tls.key,
          'tls-auth-clients': 'no',
        }),
  };
  return [
    ...Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]),
    ...(options.args ?? []),
  ];
}

async function startProcess(
  options: RedisOptions,
  argumentsFor: (port: number, dir: string) => readonly string[],
  readyLine: RegExp,
): Promise<RedisServer> {
  const dir = options.dir ?? mkdtempSync(join(tmpdir(), 'holdfast-test-redis-'));
  for (let attempt = 1; ; attempt += 1) {
    const port = options.port ?? (await findFreePort());
    try {
      const server = new ServerProcess(options, port, dir, () => argumentsFor(port, dir), readyLine);
      await server.start();
      running.add(server);
      return server;
    } catch (error) {
      if (options.port !== undefined || attempt === ATTEMPTS || !isPortTaken(error)) {
        throw error;
      }
    }
  }
}

export function isPortTaken(error: unknown): boolean {
  return String(error).includes('Address already in use');
}

class ServerProcess implements RedisServer {
  readonly host = HOST;
  readonly url: string;
  private child: ChildProcess | undefined;
  private watchdog: ChildProcess | undefined;

  constructor(
    private readonly options: RedisOptions,
    readonly port: number,
    readonly dir: string,
    private readonly argumentsOf: () => readonly string[],
    private readonly readyLine: RegExp,
  ) {
    const scheme = options.tls === undefined ? 'redis' : 'rediss';
    this.url = `${scheme}://${options.password === undefined ? '' : `:${options.password}@`}${HOST}:${port}`;
  }

  get pid(): number {
    if (this.child?.pid === undefined) {
      throw new Error('the server is not running');
    }
    return this.child.pid;
  }

  async start(): Promise<void> {
    const [command, ...words] = [...(this.options.launcher ?? []), 'redis-server', ...this.argumentsOf()] as [
      string,
      ...string[],
    ];
    const child = spawn(command, words, { stdio: ['ignore', 'pipe', 'pipe'] });
    await once(child, 'spawn');
    this.child = child;
    this.watchdog = spawnWatchdog(this.pid);
    let output = '';
    // Not 'exit', which can precede the last output; without that output, a port that is taken would not be
    // recognized.
    const ended = once(child, 'close');
    const ready = new Promise<void>((done) => {
      const collect = (chunk: Buffer): void => {
        output = `${output}${chunk.toString()}`.slice(-20_000);
        if (this.readyLine.test(output)) {
          done();
        }
      };
      child.stdout.on('data', collect);
      child.stderr.on('data', collect);
    });
    const isReady = await Promise.race([ready.then(() => true), ended.then(() => false)]);
    if (!isReady) {
      this.child = undefined;
      this.endWatchdog();
      throw new Error(`redis-server did not start: ${output}`);
    }
    child.once('exit', () => {
      this.child = undefined;
      this.endWatchdog();
    });
  }

  async stop(): Promise<void> {
    running.delete(this);
    await this.end('SIGTERM');
    if (this.options.dir === undefined) {
      rmSync(this.dir, { recursive: true, force: true });
    }
  }

  async kill(): Promise<void> {
    await this.end('SIGKILL');
  }

  pause(): void {
    process.kill(this.pid, 'SIGSTOP');
  }

  resume(): void {
    process.kill(this.pid, 'SIGCONT');
  }

  async restart(): Promise<void> {
    await this.end('SIGTERM');
    // Meanwhile the kernel may have given the port to an outgoing connection of some process. That connection
    // will end.
    for (let attempt = 1; this.child === undefined; attempt += 1) {
      await this.start().catch(async (error: unknown) => {
        if (attempt === ATTEMPTS || !isPortTaken(error)) {
          throw error;
        }
        await delay(200);
      });
    }
    running.add(this);
  }

  private async end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    const { child } = this;
    if (child === undefined) {
      return;
    }
    const ended = once(child, 'exit');
    child.kill(signal);
    child.kill('SIGCONT');
    const timer = setTimeout(() => child.kill('SIGKILL'), patience(STOP_TIMEOUT_MS));
    await ended;
    clearTimeout(timer);
  }

  private endWatchdog(): void {
    this.watchdog?.kill('SIGKILL');
    this.watchdog = undefined;
  }
}

/**
 * A shell that waits for the end of its input, which comes when this process ends in any way, and then kills
 * the server. So a test runner that is killed leaves no server behind.
 */
function spawnWatchdog(pid: number): ChildProcess {
  const script = `read -r _; kill -9 ${pid}`;
  const watchdog = spawn('sh', ['-c', script], { stdio: ['pipe', 'ignore', 'ignore'], detached: true });
  watchdog.on('error', () => undefined);
  watchdog.unref();
  return watchdog;
}
