import {
  type BeforeApplicationShutdown,
  Inject,
  Injectable,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import { Interval, SchedulerRegistry } from '@nestjs/schedule';
import { CONFIG, type HoldfastConfig, type Role } from '../config/index.js';
import {
  HealthContributors,
  type HealthReport,
  LOGGER,
  type Logger,
  MetricsRegistry,
  ShutdownState,
} from '../telemetry/index.js';
import { FailureStreak } from './failure-streak.js';
import { countRun, MAINTENANCE_METRICS, type MaintenanceCounts } from './maintenance.metrics.js';

/** Random variation of intervals: of instances that start together, one does the work and the others find it done. */
const JITTER_SHARE = 0.1;
const BEAT = 'background_work';
const BEAT_MS = 1000;
/**
 * Beats without progress after which a turn counts as stuck: longer than all Redis commands between two calls of `goesOn` may take.
 * Counting beats instead of time spares a process that was merely frozen.
 */
const STUCK_BEATS = 10;

export interface Turn {
  /**
   * Call it before each bounded piece of work. If it returns false, the turn must end: the process is stopping, or the turn was stuck and
   * has been replaced.
   */
  goesOn(): boolean;
}

export interface TurnReport {
  /** When the next turn is wanted. */
  readonly sleepMs: number;
  /** Counts the turn as a run of the job. Left out by turns that only check whether there is work. */
  readonly outcome?: 'success' | 'failed';
  /** Duration of the run, if it is not that of this turn. */
  readonly durationMs?: number;
}

/** Background work of one instance, done in bounded turns that never overlap. */
export interface Job {
  /** Names the job in the scheduler, in the log, and in cycles_maintenance_runs_total. */
  readonly name: string;
  readonly role: Role;
  /** Delay of the first turn after the start of the process. Default: none. */
  readonly startsInMs?: number;
  /** Pause after a turn that failed with an error. */
  readonly afterErrorMs: number;
  runTurn(turn: Turn): Promise<TurnReport>;
  /** Called when a stuck turn was given up. The next one starts at once. */
  restarted?(): void;
  /** What readiness depends on, under the name of the role. */
  health?(): HealthReport;
  /** Called when the shutdown begins, while requests are still served. A turn may be running, and others may follow. */
  stopping?(): void;
  /** Called after the last turn. The shutdown waits for it. */
  drain?(): Promise<void>;
}

/** A job that runs at a regular interval. A run that fails rejects, and is repeated after the interval. */
export interface RegularJob {
  readonly name: string;
  readonly role: Role;
  readonly intervalMs: number;
  /** Delay of the first run. Default: the interval. */
  readonly startsInMs?: number;
  readonly run: (turn: Turn) => Promise<void>;
}

/**
 * Runs all background work: sweeper, dispatcher, reconciler and janitors are its jobs. At each beat, the jobs that are due begin a turn; one
 * that is due before the next beat gets a wake-up of its own, a timeout of the scheduler. So a job begins when its last turn asked for it, and
 * a lost wake-up costs a second. A failed turn is counted and retried. The beat also checks that turns make progress: a promise lost in a
 * reconnect would otherwise stop the work silently. A stuck turn is abandoned (`goesOn` returns false), and another begins.
 */
@Injectable()
export class Worker implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly loops: JobLoop[] = [];
  private readonly counts = this.metrics.of(MAINTENANCE_METRICS);
  private hasStarted = false;

  constructor(
    private readonly scheduler: SchedulerRegistry,
    private readonly contributors: HealthContributors,
    private readonly shutdown: ShutdownState,
    private readonly metrics: MetricsRegistry,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  /**
   * Runs the job from the start of the application, if this instance has its role.
   * @throws Error after that start: the job would never run
   */
  add(job: Job): void {
    if (this.hasStarted) {
      throw new Error(`the job ${job.name} was added after the start of the application`);
    }
    if (this.config.roles.has(job.role)) {
      const check = job.health?.bind(job);
      if (check !== undefined) {
        this.contributors.register({ name: job.role, check });
      }
      this.shutdown.onShutdown(() => job.stopping?.());
      this.loops.push(new JobLoop(job, this.scheduler, this.counts, this.logger));
    }
  }

  addRegular({ intervalMs, run, ...job }: RegularJob): void {
    const sleepMs = (): number => intervalMs * (1 + Math.random() * JITTER_SHARE);
    this.add({
      // Read when the job starts.
      get startsInMs() {
        return sleepMs();
      },
      ...job,
      afterErrorMs: intervalMs,
      runTurn: async (turn) => {
        await run(turn);
        return { sleepMs: sleepMs(), outcome: 'success' };
      },
    });
  }

  onApplicationBootstrap(): void {
    this.hasStarted = true;
    for (const loop of this.loops) {
      loop.start();
    }
  }

  @Interval(BEAT, BEAT_MS)
  beat(): void {
    for (const loop of this.loops) {
      loop.beat();
    }
  }

  async beforeApplicationShutdown(): Promise<void> {
    await Promise.all(this.loops.map((loop) => loop.stop()));
  }
}

class JobLoop {
  /** Number of the current turn. A turn with another number was abandoned. */
  private current = 0;
  private running: Promise<void> | undefined;
  /** When the next turn begins, on the clock of `performance.now`. */
  private dueAt = Infinity;
  private isStopped = false;
  /** Changes whenever the current turn makes progress. */
  private progress = 0;
  private seen = { progress: -1, beats: 0 };
  private readonly failures = new FailureStreak(
    this.logger,
    { job: this.job.name },
    { failed: 'a job failed; it will be retried', again: 'a job works again' },
  );

  constructor(
    private readonly job: Job,
    private readonly scheduler: SchedulerRegistry,
    private readonly counts: MaintenanceCounts,
    private readonly logger: Logger,
  ) {}

  start(): void {
    this.sleep(this.job.startsInMs ?? 0);
  }

  /** Resolves when the current turn has ended and the job has drained. */
  async stop(): Promise<void> {
    this.isStopped = true;
    this.clearWakeUp();
    await this.running;
    await this.job.drain?.();
  }

  beat(): void {
    if (this.isStopped) {
      return;
    }
    if (this.running !== undefined) {
      this.requireProgress();
    } else if (this.dueAt <= performance.now()) {
      this.begin();
    } else {
      this.wakeBeforeNextBeat();
    }
  }

  private requireProgress(): void {
    const isStill = this.seen.progress === this.progress;
    this.seen = { progress: this.progress, beats: isStill ? this.seen.beats + 1 : 0 };
    if (this.seen.beats >= STUCK_BEATS) {
      this.logger.error(
        { job: this.job.name, stuck_ms: this.seen.beats * BEAT_MS },
        'A JOB IS STUCK AND IS RESTARTED',
      );
      this.current += 1;
      this.job.restarted?.();
      this.sleep(0);
    }
  }

  private sleep(delayMs: number): void {
    this.running = undefined;
    this.dueAt = performance.now() + delayMs;
    this.wakeBeforeNextBeat();
  }

  private wakeBeforeNextBeat(): void {
    const delayMs = this.dueAt - performance.now();
    if (delayMs < BEAT_MS && !this.isStopped) {
      this.clearWakeUp();
      this.scheduler.addTimeout(
        this.job.name,
        setTimeout(() => this.begin(), delayMs),
      );
    }
  }

  private clearWakeUp(): void {
    if (this.scheduler.doesExist('timeout', this.job.name)) {
      this.scheduler.deleteTimeout(this.job.name);
    }
  }

  private begin(): void {
    this.clearWakeUp();
    this.running = this.runTurn();
  }

  /** Never rejects. */
  private async runTurn(): Promise<void> {
    const { job } = this;
    const number = ++this.current;
    const began = performance.now();
    const turn: Turn = {
      goesOn: () => {
        const isCurrent = this.current === number;
        this.progress += isCurrent ? 1 : 0;
        return isCurrent && !this.isStopped;
      },
    };
    this.progress += 1;
    let report: TurnReport;
    try {
      report = await job.runTurn(turn);
      if (report.outcome !== 'failed') {
        this.failures.succeeded();
      }
    } catch (error) {
      this.failures.failed(error);
      report = { sleepMs: job.afterErrorMs, outcome: 'failed' };
    }
    if (this.current === number) {
      if (report.outcome !== undefined) {
        countRun(this.counts, job.name, report.outcome, report.durationMs ?? performance.now() - began);
      }
      this.sleep(report.sleepMs);
    }
  }
}
