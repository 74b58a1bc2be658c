import { type ChildProcess, spawn } from 'node:child_process';
import { resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { HoldfastConfig } from '../../config/index.js';
import type { Logger } from '../../telemetry/index.js';
import { StoreBootError } from '../errors.js';
import type { RedisCounts } from '../redis.metrics.js';
import { DataDirLock } from './data-dir-lock.js';
import {
  defaultMaxmemoryBytes,
  type EmbeddedDirectories,
  findRedisBinary,
  prepareDirectories,
  redisArguments,
  stopOrphan,
} from './setup.js';

export type EmbeddedRedisOptions = Pick<
  HoldfastConfig,
  'dataDir' | 'embeddedAppendFsync' | 'embeddedMaxmemoryBytes' | 'workers'
>;

/** A child that ran this long is restarted at once. One that exited earlier is restarted with exponential backoff. */
const STABLE_AFTER_MS = 10_000;
const FIRST_RESTART_DELAY_MS = 50;
const LONGEST_RESTART_DELAY_MS = 5000;
const STOP_TIMEOUT_MS = 5000;
/** The last log line of a child that exited may still be in the pipe. */
const LAST_LINE_DELAY_MS = 20;
const KEPT_LOG_LINES = 5;
/** Redis 7.0 logs these lines of every start as warnings. */
const START_BANNER = /^(?:oO0O|Redis version=|Configuration loaded|Server initialized)/;

/**
 * A Redis server as a child process. It listens on a Unix socket in a directory that only this user can access.
 *
 * The child is detached, so that ^C in the terminal reaches only Holdfast, which then stops HTTP, clients and Redis in this order. A
 * child that exits is restarted on the same files. Redis writes its log before it replies, so the kernel has everything that was
 * acknowledged when the process dies; appendfsync decides what a crash of the host may lose. One exception: with `everysec`, while an
 * fsync is running, Redis replies first and writes up to two seconds later.
 */
export class EmbeddedRedis {
  private child: ChildProcess | undefined;
  private restartDelayMs = FIRST_RESTART_DELAY_MS;
  private stopping = false;
  private readonly recentLog: string[] = [];
  private readonly killAtExit = (): void => {
    this.child?.kill('SIGTERM');
  };

  private constructor(
    private readonly binary: string,
    private readonly directories: EmbeddedDirectories,
    private readonly options: EmbeddedRedisOptions,
    private readonly lock: DataDirLock,
    private readonly logger: Logger,
    private readonly counts: RedisCounts,
  ) {}

  /**
   * Locks DATA_DIR, stops a Redis that a killed Holdfast left running there, and starts the child, which may still be loading its data
   * when this returns.
   * @throws StoreBootError
   */
  static async start(
    options: EmbeddedRedisOptions,
    logger: Logger,
    counts: RedisCounts,
  ): Promise<EmbeddedRedis> {
    const binary = findRedisBinary();
    const dataDir = resolve(options.dataDir);
    const lock = DataDirLock.acquire(dataDir);
    try {
      const directories = prepareDirectories(dataDir);
      await stopOrphan(directories.socket, dataDir, logger);
      const embedded = new EmbeddedRedis(binary, directories, options, lock, logger, counts);
      process.once('exit', embedded.killAtExit);
      await embedded.launch();
      return embedded;
    } catch (error) {
      lock.release();
      throw error;
    }
  }

  get socket(): string {
    return this.directories.socket;
  }

  /** @throws StoreBootError with the last log line of the child if it is not running */
  async mustRun(): Promise<void> {
    if (this.child === undefined) {
      await delay(LAST_LINE_DELAY_MS);
      const lastLine = (this.recentLog.at(-1) ?? 'it logged nothing').replace(/\s+/g, ' ').trim();
      throw new StoreBootError(`the embedded Redis is not running (${lastLine})`);
    }
  }

  /** Stops the child, which flushes its log and exits. After 5 s it is killed. */
  async stop(): Promise<void> {
    this.stopping = true;
    const { child } = this;
    if (child !== undefined) {
      const ended = new Promise<true>((done) => child.once('exit', () => done(true)));
      child.kill('SIGTERM');
      if (!(await Promise.race([ended, delay(STOP_TIMEOUT_MS, false, { ref: false })]))) {
        this.logger.error({ pid: child.pid }, 'the embedded Redis did not stop in time; killing it');
        child.kill('SIGKILL');
        await ended;
      }
    }
    process.off('exit', this.killAtExit);
    this.lock.release();
  }

  private async launch(): Promise<void> {
    const { embeddedAppendFsync: appendFsync, embeddedMaxmemoryBytes, workers } = this.options;
    const maxmemoryBytes = embeddedMaxmemoryBytes ?? defaultMaxmemoryBytes(workers > 1 ? workers + 1 : 1);
    const child = spawn(this.binary, redisArguments(this.directories, { appendFsync, maxmemoryBytes }), {
      cwd: this.directories.data,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const startedAt = performance.now();
    child.stdout.setEncoding('utf8').on('data', (text: string) => this.relayLog(text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => this.relayLog(text));
    const spawned = new Promise<void>((done, fail) => {
      child.once('spawn', done);
      child.once('error', fail);
    });
    try {
      await spawned;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      throw new StoreBootError(
        `the embedded Redis (${this.binary}) cannot be started (${code}); set REDIS_URL to use another`,
      );
    }
    child.on('error', (error) =>
      this.logger.error({ err: error }, 'cannot send a signal to the embedded Redis'),
    );
    this.child = child;
    child.once('exit', (code, signal) => {
      this.child = undefined;
      if (!this.stopping) {
        this.restartAfter(performance.now() - startedAt, signal ?? `exit code ${code}`);
      }
    });
    this.logger.info({ pid: child.pid, socket: this.socket }, 'started the embedded Redis');
  }

  private restartAfter(uptimeMs: number, reason: string): void {
    this.restartDelayMs =
      uptimeMs >= STABLE_AFTER_MS
        ? FIRST_RESTART_DELAY_MS
        : Math.min(this.restartDelayMs * 2, LONGEST_RESTART_DELAY_MS);
    this.counts.embeddedRestarts.inc();
    this.logger.error(
      { how: reason, lastWords: this.recentLog.at(-1), restartInMs: this.restartDelayMs },
      'THE EMBEDDED REDIS EXITED; restarting it',
    );
    setTimeout(() => {
      if (!this.stopping) {
        this.launch().catch((error: unknown) => {
          this.logger.error({ err: error }, 'cannot restart the embedded Redis');
          this.restartAfter(0, 'not started');
        });
      }
    }, this.restartDelayMs).unref();
  }

  /** Redis marks warnings with '#'. Everything else is logged at the debug level. */
  private relayLog(text: string): void {
    for (const line of text.split('\n').filter((one) => one.trim() !== '')) {
      const message = line.replace(/^\d+:[A-Z] \d+ \w+ \d+ [\d:.]+ [.\-*#] /, '').trim();
      this.recentLog.push(message);
      if (this.recentLog.length > KEPT_LOG_LINES) {
        this.recentLog.shift();
      }
      const isWarning = /^\d+:[A-Z] \d+ \w+ \d+ [\d:.]+ # /.test(line) && !START_BANNER.test(message);
      this.logger[isWarning && !this.stopping ? 'warn' : 'debug']({ from: 'redis' }, message);
    }
  }
}
