import cluster, { type Worker } from 'node:cluster';
import { setTimeout as delay } from 'node:timers/promises';
import type { HoldfastConfig } from '../config/index.js';
import { EmbeddedRedis, REDIS_METRICS } from '../redis/index.js';
import { GroupMetrics, type Logger } from '../telemetry/index.js';
import { type Alive, BEAT_MS, type Listening, type Running } from './worker-messages.js';

/** A worker that ran this long is replaced at once. One that ended earlier is replaced with exponential backoff. */
const STABLE_AFTER_MS = 10_000;
const FIRST_DELAY_MS = 50;
const LONGEST_DELAY_MS = 5000;
const EMBEDDED_CHECK_MS = 50;
/**
 * A worker that misses this many beats in a row hangs: no collection of garbage takes so long. They are counted by the parent's own
 * beats, so a parent or a machine that stood still blames no worker.
 */
const MISSED_BEATS = 10;
/** Less while stopping, so that a worker that hangs does not use up the 10 s. */
const MISSED_BEATS_AT_STOP = 3;

/**
 * The parent of HOLDFAST_WORKERS processes that serve the same port. Each worker is a whole instance of the service; the parent accepts
 * connections and hands them out in turn, owns the embedded Redis, replaces workers that die, and adds their metrics up.
 *
 * Signals may reach the parent alone, or every process at once as from a terminal. So a worker stops at its first signal, ignores further
 * ones, and is replaced only if the parent is not stopping. A worker whose parent dies exits at once.
 */
export class WorkerGroup implements Running {
  private readonly workers = new Set<Worker>();
  private readonly serving = new Set<Worker>();
  /** The beats that each serving worker has missed since its last one. */
  private readonly missed = new Map<Worker, number>();
  private readonly hung = new WeakSet<Worker>();
  private watching: NodeJS.Timeout | undefined;
  private readonly metrics: GroupMetrics;
  private embedded: EmbeddedRedis | undefined;
  private replacementDelayMs = FIRST_DELAY_MS;
  private started = false;
  private stopping = false;
  private readonly killAtExit = (): void => {
    this.workers.forEach((worker) => worker.process.kill('SIGKILL'));
  };

  private constructor(
    private readonly config: HoldfastConfig,
    private readonly logger: Logger,
  ) {
    this.metrics = new GroupMetrics(() => [...this.serving], logger);
  }

  /** Resolves when all workers listen. @throws whatever stops the start, after stopping everything that was started */
  static async start(config: HoldfastConfig, logger: Logger): Promise<WorkerGroup> {
    const group = new WorkerGroup(config, logger);
    process.once('exit', group.killAtExit);
    try {
      await group.open();
      return group;
    } catch (error) {
      await group.close().catch(() => undefined);
      throw error;
    }
  }

  async stop(signal: string): Promise<void> {
    this.logger.info({ signal }, 'holdfast is shutting down');
    await this.close();
    this.logger.info('holdfast has stopped');
  }

  private async open(): Promise<void> {
    const { config, logger } = this;
    if (config.redis.mode === 'embedded') {
      this.embedded = await EmbeddedRedis.start(config, logger, this.metrics.metrics.of(REDIS_METRICS));
    }
    // The first one alone: it generates the keys and loads the scripts, and a problem is reported once.
    const first = this.launch();
    while ((await Promise.race([first, delay(EMBEDDED_CHECK_MS)])) === undefined) {
      await this.embedded?.mustRun();
    }
    const { port, adminPort } = await first;
    await Promise.all(Array.from({ length: config.workers - 1 }, () => this.launch()));
    this.started = true;
    this.watching = setInterval(() => this.killHung(), BEAT_MS);
    logger.info(
      { port, admin_port: adminPort, host: config.host, roles: [...config.roles], workers: config.workers },
      'holdfast is listening',
    );
  }

  /** Starts a worker. Resolves when it listens. @throws if it ends before, having said why. */
  private launch(): Promise<Listening> {
    const worker = cluster.fork();
    const startedAt = performance.now();
    this.workers.add(worker);
    this.metrics.follow(worker);
    worker.on('error', (error) => this.logger.error({ err: error }, 'cannot talk to a worker process'));
    return new Promise((resolve, reject) => {
      worker.on('message', (message: Listening | Alive | { readonly kind: undefined }) => {
        this.missed.set(worker, 0);
        if (message.kind === 'listening') {
          this.serving.add(worker);
          resolve(message);
        }
      });
      worker.once('exit', (code, signal) => {
        // Null without a signal, although the type says otherwise.
        const how = this.hung.has(worker) ? 'hung' : ((signal as string | null) ?? `exit code ${code}`);
        this.workers.delete(worker);
        this.missed.delete(worker);
        const served = this.serving.delete(worker);
        reject(new WorkerEnded(`a worker process ended before it served (${how})`));
        if ((served || this.started) && !this.stopping) {
          this.replaceAfter(performance.now() - startedAt, worker.process.pid, how);
        }
      });
    });
  }

  /** Kills the workers that hang, whose connections would wait for ever. Their ends are handled like those of others. */
  private killHung(): void {
    const allowed = this.stopping ? MISSED_BEATS_AT_STOP : MISSED_BEATS;
    for (const worker of this.serving) {
      const missed = (this.missed.get(worker) ?? 0) + 1;
      this.missed.set(worker, missed);
      if (missed > allowed && !this.hung.has(worker)) {
        this.hung.add(worker);
        this.logger.error({ pid: worker.process.pid, missed }, 'A WORKER PROCESS HANGS; killing it');
        worker.process.kill('SIGKILL');
      }
    }
  }

  private replaceAfter(uptimeMs: number, pid: number | undefined, how: string): void {
    this.replacementDelayMs =
      uptimeMs >= STABLE_AFTER_MS ? FIRST_DELAY_MS : Math.min(this.replacementDelayMs * 2, LONGEST_DELAY_MS);
    this.metrics.workerReplaced(how === 'hung' ? 'hung' : 'ended');
    this.logger.error(
      { pid, how, restartInMs: this.replacementDelayMs },
      'A WORKER PROCESS ENDED; replacing it',
    );
    setTimeout(() => {
      if (!this.stopping) {
        // If it ends before it serves, it is replaced in turn.
        this.launch().catch(() => undefined);
      }
    }, this.replacementDelayMs).unref();
  }

  /** Lets every worker answer what is in flight, and then stops the embedded Redis. A worker that does not serve yet is killed. */
  private async close(): Promise<void> {
    this.stopping = true;
    const inOrder = await Promise.all(
      [...this.workers].map((worker) => {
        const serves = this.serving.has(worker);
        worker.process.kill(serves ? 'SIGTERM' : 'SIGKILL');
        return new Promise<boolean>((done) =>
          worker.once('exit', (code) => done(!serves || code === 0 || this.hung.has(worker))),
        );
      }),
    );
    clearInterval(this.watching);
    await this.embedded?.stop();
    process.off('exit', this.killAtExit);
    if (inOrder.includes(false)) {
      throw new WorkerEnded('a worker process did not stop in order');
    }
  }
}

class WorkerEnded extends Error {
  override readonly name = 'WorkerEnded';
}
