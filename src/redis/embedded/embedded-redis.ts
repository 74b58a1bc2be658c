import { type ChildProcess, spawn } from 'node:child_process';
import { resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from '../../telemetry/index.js';
import { StoreBootError } from '../errors.js';
import type { RedisMetrics } from '../redis.metrics.js';
import { DataDirLock } from './data-dir-lock.js';
import {
  type EmbeddedDirectories,
  findRedisBinary,
  prepareDirectories,
  redisArguments,
  stopOrphan,
} from './setup.js';

export interface EmbeddedRedisOptions {
  readonly dataDir: string;
  readonly appendFsync: 'everysec' | 'always';
}

/** A child that lived this long had started well; its end is answered at once, an earlier one with growing pauses. */
const STABLE_AFTER_MS = 10_000;
const FIRST_RESTART_DELAY_MS = 50;
const LONGEST_RESTART_DELAY_MS = 5000;
const STOP_TIMEOUT_MS = 5000;
const KEPT_LOG_LINES = 5;
/** Redis 7.0 marks the lines of every start as warnings. */
const START_BANNER = /^(?:oO0O|Redis version=|Configuration loaded|Server initialized)/;

/**
 * Holdfast's own Redis: a child process that listens on a Unix socket in a directory nobody else may enter.
 *
 * The child is detached, so that a ^C in the terminal reaches only Holdfast, which then stops in order: HTTP, clients,
 * Redis. When the child dies it is started again on the same files. Redis writes its log before it answers, so the
 * kernel has all that was acknowledged when the process dies, and appendfsync decides what a crash of the host may take.
 * There is one exception: with `everysec`, while a flush to the disk is under way, Redis answers first and writes up to two
 * seconds later.
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
    private readonly metrics: RedisMetrics,
  ) {}

  /**
   * Takes DATA_DIR, stops what a killed Holdfast left running there, and starts the child. It may still be loading its
   * data when this returns.
   * @throws StoreBootError of one line.
   */
  static async start(
    options: EmbeddedRedisOptions,
    logger: Logger,
    metrics: RedisMetrics,
  ): Promise<EmbeddedRedis> {
    const binary = findRedisBinary();
    const dataDir = resolve(options.dataDir);
    const lock = DataDirLock.acquire(dataDir);
    try {
      const directories = prepareDirectories(dataDir);
      await stopOrphan(directories.socket, dataDir, logger);
      const embedded = new EmbeddedRedis(binary, directories, options, lock, logger, metrics);
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

  /** The pid of the running child, for tests and for the log. */
  get pid(): number | undefined {
    return this.child?.pid;
  }

  /** Whether the child has ended and could not (yet) be started again, with what it said last. */
  get failure(): string | undefined {
    return this.child === undefined ? (this.recentLog.at(-1) ?? 'no word from it') : undefined;
  }

  /** Ends the child: it flushes its log and goes; one that does not within 5 s is killed. */
  async stop(): Promise<void> {
    this.stopping = true;
    const { child } = this;
    if (child !== undefined) {
      const ended = new Promise<true>((done) => child.once('exit', () => done(true)));
      child.kill('SIGTERM');
      if (!(await Promise.race([ended, delay(STOP_TIMEOUT_MS, false, { ref: false })]))) {
        this.logger.error({ pid: child.pid }, 'the embedded Redis did not stop in time and is killed');
        child.kill('SIGKILL');
        await ended;
      }
    }
    process.off('exit', this.killAtExit);
    this.lock.release();
  }

  private async launch(): Promise<void> {
    const child = spawn(this.binary, redisArguments(this.directories, this.options.appendFsync), {
      cwd: this.directories.data,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const startedAt = performance.now();
    child.stdout.setEncoding('utf8').on('data', (text: string) => this.relay(text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => this.relay(text));
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
    child.on('error', (error) => this.logger.error({ err: error }, 'the embedded Redis cannot be signalled'));
    this.child = child;
    child.once('exit', (code, signal) => {
      this.child = undefined;
      if (!this.stopping) {
        this.restartAfter(performance.now() - startedAt, signal ?? `exit code ${code}`);
      }
    });
    this.logger.info({ pid: child.pid, socket: this.socket }, 'started the embedded Redis');
  }

  private restartAfter(livedMs: number, how: string): void {
    this.restartDelayMs =
      livedMs >= STABLE_AFTER_MS
        ? FIRST_RESTART_DELAY_MS
        : Math.min(this.restartDelayMs * 2, LONGEST_RESTART_DELAY_MS);
    this.metrics.embeddedRestarts.inc();
    this.logger.error(
      { how, lastWords: this.recentLog.at(-1), restartInMs: this.restartDelayMs },
      'THE EMBEDDED REDIS DIED and is started again',
    );
    setTimeout(() => {
      if (!this.stopping) {
        this.launch().catch((error: unknown) => {
          this.logger.error({ err: error }, 'the embedded Redis cannot be started again');
          this.restartAfter(0, 'not started');
        });
      }
    }, this.restartDelayMs).unref();
  }

  /** Redis marks warnings with '#'; the rest is for those who look closely. */
  private relay(text: string): void {
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
