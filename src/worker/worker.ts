import {
  Inject,
  Injectable,
  type BeforeApplicationShutdown,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import { SchedulerRegistry } from '@nestjs/schedule';
import { CONFIG, type HoldfastConfig, type Role } from '../config/index.js';
import { LOGGER, type Logger } from '../telemetry/index.js';
import { MaintenanceMetrics } from '../telemetry/index.js';

/** Instances start together; spread out, they find each other's work done. */
const JITTER_SHARE = 0.1;
const WATCHDOG = 'worker_watchdog';
const WATCHDOG_MS = 1000;
/**
 * Looks of the watchdog that see a turn in the same place before it is called stuck: longer than all the Redis commands between two
 * calls of `goesOn` may take. Looks are counted instead of time, because a process that was frozen is late without being stuck.
 */
const STUCK_LOOKS = 10;

export interface Turn {
  /**
   * Asked before each bounded piece of work. False means that the turn must end: the process is stopping, or the turn stood still and
   * another one has replaced it.
   */
  goesOn(): boolean;
}

export interface TurnReport {
  /** When the next turn is wanted. */
  readonly sleepMs: number;
  /** Counts as a run of the job, unless it is left out: many turns only look whether there is anything to do. */
  readonly outcome?: 'success' | 'failed';
  /** How long the run took, where it is not this turn alone. */
  readonly durationMs?: number;
}

/** Background work of one instance, done in bounded turns that never overlap. */
export interface Job {
  /** Names the job in the scheduler, in the log, and in cycles_maintenance_runs_total. */
  readonly name: string;
  readonly role: Role;
  /** How long after the start of the process the first turn comes; at once when it is left out. */
  readonly startsInMs?: number;
  /** The pause after a turn that failed with an error. */
  readonly afterErrorMs: number;
  runTurn(turn: Turn): Promise<TurnReport>;
  /** The watchdog has given up a turn; the next one starts at once. */
  restarted?(): void;
  /** Called when the shutdown begins, while a turn may still be under way. */
  stopping?(): void;
  /** Called after the last turn. The shutdown waits for it. */
  drain?(): Promise<void>;
}

/** A job whose turns are runs at a regular interval. A run that fails rejects, and is repeated after the interval. */
export interface RegularJob {
  readonly name: string;
  readonly role: Role;
  readonly intervalMs: number;
  /** When the first run comes; after the interval when it is left out. */
  readonly startsInMs?: number;
  readonly run: (turn: Turn) => Promise<void>;
}

/**
 * The loop behind all background work: sweeper, dispatcher, reconciler and janitors are its jobs. Each job sleeps until the instant that
 * its last turn named, in a timeout of its own in the scheduler, so that none waits for another. A turn that fails is counted and
 * tried again. A watchdog sees to it that turns move: a promise that is lost in a reconnect would otherwise stop the work without a
 * word. A stuck turn is disowned (`goesOn` turns false) and a new one started.
 */
@Injectable()
export class Worker implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly loops: JobLoop[] = [];

  constructor(
    private readonly scheduler: SchedulerRegistry,
    private readonly metrics: MaintenanceMetrics,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  /** Runs the job from the start of the application on, if this instance has its role. Called while modules are initialised. */
  add(job: Job): void {
    if (this.config.roles.has(job.role)) {
      this.loops.push(new JobLoop(job, this.scheduler, this.metrics, this.logger));
    }
  }

  addRegular({ intervalMs, run, ...job }: RegularJob): void {
    const sleepMs = (): number => intervalMs * (1 + Math.random() * JITTER_SHARE);
    this.add({
      startsInMs: sleepMs(),
      ...job,
      afterErrorMs: intervalMs,
      runTurn: async (turn) => {
        await run(turn);
        return { sleepMs: sleepMs(), outcome: 'success' };
      },
    });
  }

  onApplicationBootstrap(): void {
    for (const loop of this.loops) {
      loop.start();
    }
    this.scheduler.addInterval(
      WATCHDOG,
      setInterval(() => this.loops.forEach((loop) => loop.watch()), WATCHDOG_MS),
    );
  }

  async beforeApplicationShutdown(): Promise<void> {
    if (this.scheduler.doesExist('interval', WATCHDOG)) {
      this.scheduler.deleteInterval(WATCHDOG);
    }
    await Promise.all(this.loops.map((loop) => loop.stop()));
  }
}

class JobLoop {
  /** Counts turns. A turn whose number is not this one any more was disowned. */
  private current = 0;
  private running: Promise<void> | undefined;
  private isStopped = false;
  /** Changes whenever the turn under way gets anywhere. */
  private progress = 0;
  private seen = { progress: -1, looks: 0 };

  constructor(
    private readonly job: Job,
    private readonly scheduler: SchedulerRegistry,
    private readonly metrics: MaintenanceMetrics,
    private readonly logger: Logger,
  ) {}

  start(): void {
    this.schedule(this.job.startsInMs ?? 0);
  }

  /** Resolves when the turn under way has ended, and what the job drains is drained. */
  async stop(): Promise<void> {
    this.isStopped = true;
    this.unschedule();
    this.job.stopping?.();
    await this.running;
    await this.job.drain?.();
  }

  watch(): void {
    const isStill = this.running !== undefined && this.seen.progress === this.progress;
    this.seen = { progress: this.progress, looks: isStill ? this.seen.looks + 1 : 0 };
    if (this.seen.looks >= STUCK_LOOKS && !this.isStopped) {
      this.logger.error(
        { job: this.job.name, stuck_ms: this.seen.looks * WATCHDOG_MS },
        'A JOB STOOD STILL AND IS STARTED ANEW',
      );
      this.current += 1;
      this.job.restarted?.();
      this.schedule(0);
    }
  }

  private schedule(delayMs: number): void {
    if (this.isStopped) {
      return;
    }
    this.unschedule();
    this.running = undefined;
    this.scheduler.addTimeout(
      this.job.name,
      setTimeout(() => {
        this.unschedule();
        this.running = this.runTurn();
      }, delayMs),
    );
  }

  private unschedule(): void {
    if (this.scheduler.doesExist('timeout', this.job.name)) {
      this.scheduler.deleteTimeout(this.job.name);
    }
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
    } catch (error) {
      this.logger.warn({ err: error, job: job.name }, 'a job failed; it is tried again');
      report = { sleepMs: job.afterErrorMs, outcome: 'failed' };
    }
    if (this.current === number) {
      if (report.outcome !== undefined) {
        this.metrics.runEnded(job.name, report.outcome, report.durationMs ?? performance.now() - began);
      }
      this.schedule(report.sleepMs);
    }
  }
}
