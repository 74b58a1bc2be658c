import {
  type BeforeApplicationShutdown,
  Inject,
  Injectable,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import { SchedulerRegistry } from '@nestjs/schedule';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { type HealthReport, LOGGER, type Logger } from '../telemetry/index.js';
import { type DrainReport, PartitionDrain, type Pass } from './partition-drain.js';
import { PartitionLeases } from './partition-leases.js';
import { Partition } from './partition.js';
import { SweepJournal, totals } from './sweep-journal.js';
import { SweepLoop } from './sweep-loop.js';
import { SweepMetrics } from './sweep.metrics.js';

/** The longest a tick drains; what is still due then is counted as a cut-off and continued by the next tick at once. */
const TICK_BUDGET_MS = 500;
/** Deadlines that lie closer together than this are met by one tick. */
const SHORTEST_SLEEP_MS = 20;

/**
 * The sweeper: gives back what dead clients hold, on time. A tick renews the leases of its partitions when their beat is
 * due, drains those in which something is due, and sleeps until the earliest deadline that it knows, or until the next
 * beat, which finds the deadlines that others have made since. A beat comes at least every SWEEP_INTERVAL_MS: with the
 * default of a second, which is also the shortest lease of a hold, no hold is both born and due between two beats.
 *
 * Time is Redis' own: the process' clock decides only when to look. Ticks never overlap, are bounded by count and time, and
 * end before shutdown goes on.
 */
@Injectable()
export class ExpiryService implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly loop: SweepLoop;
  private readonly journal = new SweepJournal();
  private readonly beatMs: number;
  private nextBeatAt = 0;
  private lastBeat: { readonly redisMs: number; readonly at: number } | undefined;
  private beatFailed = false;
  private ticking: Promise<unknown> = Promise.resolve();
  private sweeping: Promise<DrainReport> | undefined;

  constructor(
    private readonly leases: PartitionLeases,
    private readonly drain: PartitionDrain,
    private readonly metrics: SweepMetrics,
    scheduler: SchedulerRegistry,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {
    this.beatMs = Math.min(config.sweepIntervalMs, Math.floor(config.sweepLeaseMs / 3));
    this.loop = new SweepLoop({
      tick: (isCurrent) => this.takeTurn(isCurrent),
      longestSleepMs: this.beatMs,
      scheduler,
      logger,
      restarted: () => {
        metrics.restarted();
        this.ticking = Promise.resolve();
      },
    });
    metrics.observeAge(() => (config.roles.has('sweeper') ? this.journal.ageMs() : 0));
  }

  onApplicationBootstrap(): void {
    if (this.config.roles.has('sweeper')) {
      this.loop.start();
    }
  }

  async beforeApplicationShutdown(): Promise<void> {
    await this.loop.stop();
    await this.sweeping;
    if (this.config.roles.has('sweeper')) {
      await this.leases.leave();
    }
  }

  /**
   * Sweeps all partitions once, whoever holds their leases: a second sweeper harms nobody, for lua/expire.lua alone judges.
   * A sweep that is under way is joined, and a tick waited for. Never rejects: what failed is in the report.
   */
  sweep(): Promise<DrainReport> {
    this.sweeping ??= this.ticking
      .then(() => {
        const partitions = Array.from(
          { length: this.leases.partitions },
          (_, number) => new Partition(number),
        );
        return this.drain.run(
          partitions,
          withinBudget('', () => true),
        );
      })
      .finally(() => {
        this.sweeping = undefined;
      });
    return this.sweeping;
  }

  /** Readiness: the age of the last sweep without a failure, and how long something due has waited for this sweeper. */
  health(): HealthReport {
    const limitMs = this.config.sweepAlertMs;
    const held = [...this.leases.held.values()];
    const now = performance.now();
    const ageMs = this.journal.ageMs();
    const latenessMs = Math.round(Math.max(0, ...held.map((partition) => partition.lateForMs(now))));
    return {
      up: ageMs <= limitMs && latenessMs <= limitMs,
      details: {
        last_success_age_ms: ageMs,
        lateness_ms: latenessMs,
        limit_ms: limitMs,
        partitions: held.length,
        backlog: totals(held).backlog,
      },
    };
  }

  private async takeTurn(isCurrent: () => boolean): Promise<number> {
    await this.sweeping;
    const tick = this.tick(isCurrent);
    this.ticking = tick.catch(() => undefined);
    return tick;
  }

  /** One tick. Returns when the next one is to start. */
  private async tick(isCurrent: () => boolean): Promise<number> {
    const began = performance.now();
    let failed = 0;
    let wakeAt = Number.POSITIVE_INFINITY;
    if (began >= this.nextBeatAt) {
      const beat = await this.leases.beat(
        JSON.stringify(this.journal.report([...this.leases.held.values()])),
        isCurrent,
      );
      failed = beat.failed;
      wakeAt = beat.nextLapseAt;
      this.lastBeat =
        beat.nowMs === undefined ? this.lastBeat : { redisMs: beat.nowMs, at: performance.now() };
      // A beat a little early keeps the interval a promise, and the spread keeps instances out of step.
      this.nextBeatAt = began + this.beatMs * (0.9 + Math.random() * 0.1);
      this.beatFailed = failed > 0;
    }
    const due = [...this.leases.held.values()].filter(({ dueFrom }) => dueFrom <= performance.now());
    const report = await this.drain.run(due, this.passOf(isCurrent));
    if (isCurrent()) {
      this.ended({ ...report, failed: report.failed + failed }, performance.now() - began);
    }
    return this.sleepMs(report.cut, wakeAt);
  }

  private passOf(isCurrent: () => boolean): Pass {
    return {
      ...withinBudget(this.leases.instance, isCurrent),
      lost: (partition) => this.leases.lose(partition),
    };
  }

  private ended(report: DrainReport, durationMs: number): void {
    const succeeded = report.failed === 0 && !this.beatFailed;
    this.metrics.tickEnded(succeeded ? 'success' : 'failed', durationMs);
    this.journal.add({ at_ms: this.redisNowMs(), duration_ms: durationMs, ...report }, succeeded);
    if (succeeded) {
      this.metrics.succeeded(this.redisNowMs());
    }
    const held = [...this.leases.held.values()];
    const {
      backlog,
      oldest_due_for_ms: oldestDueMs,
      quarantined,
      awaiting_cleanup: awaitingCleanup,
      oldest_awaiting_for_ms: oldestAwaitingMs,
    } = totals(held);
    this.metrics.show({
      leases: held.length,
      instances: this.leases.alive,
      backlog,
      oldestDueMs,
      quarantined,
      awaitingCleanup,
      oldestAwaitingMs,
    });
  }

  /** For display only: the last answer of Redis and what has passed since. */
  private redisNowMs(): number {
    return this.lastBeat === undefined
      ? 0
      : Math.round(this.lastBeat.redisMs + performance.now() - this.lastBeat.at);
  }

  private sleepMs(cut: boolean, nextLapseAt: number): number {
    if (cut) {
      return 0;
    }
    const now = performance.now();
    const deadline = Math.min(...[...this.leases.held.values()].map(({ dueFrom }) => dueFrom));
    const wakeAt = Math.min(this.nextBeatAt, deadline, nextLapseAt);
    if (nextLapseAt <= this.nextBeatAt) {
      this.nextBeatAt = Math.max(nextLapseAt, now + SHORTEST_SLEEP_MS);
    }
    return Math.max(SHORTEST_SLEEP_MS, Math.ceil(wakeAt - now));
  }
}

function withinBudget(token: string, isCurrent: () => boolean): Pass {
  const deadline = performance.now() + TICK_BUDGET_MS;
  return { token, goesOn: () => isCurrent() && performance.now() <= deadline, lost: () => undefined };
}
