import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { type HealthReport, MetricsRegistry } from '../telemetry/index.js';
import { Worker, type Job, type Turn, type TurnReport } from '../worker/index.js';
import type { DrainReport } from './drain-run.js';
import { PartitionDrain } from './partition-drain.js';
import { SweepLeases, SweepPartition } from './sweep-partition.js';
import { SweepHistory, totals } from './sweeper-state.js';
import { SWEEP_METRICS } from './expiry.metrics.js';

/** Longest drain of one turn. If holds are still due after it, it counts as cut off, and the next turn continues at once. */
export const TURN_BUDGET_MS = 500;
/** Deadlines closer together than this are handled by one turn. */
const SHORTEST_SLEEP_MS = 20;

/**
 * The sweeper: returns the holds of dead clients on time. A turn renews the leases of its partitions when their beat is due, drains
 * partitions with due holds, and sleeps until the earliest known deadline or the next beat, which finds the deadlines that others have
 * added since. Beats are at most SWEEP_INTERVAL_MS apart. The default of a second is also the shortest lease of a hold, so no hold can be
 * created and become due between two beats.
 *
 * Only Redis' time counts: the process' clock decides when to check, nothing else. Turns are bounded by count and time.
 */
@Injectable()
export class ExpiryService implements OnModuleInit, Job {
  readonly name = 'reservation_expiry';
  readonly role = 'sweeper';
  readonly afterErrorMs: number;
  private readonly counts = this.metrics.of(SWEEP_METRICS);
  private readonly history = new SweepHistory();
  private lastBeat: { readonly redisMs: number; readonly at: number } | undefined;
  private beatFailed = false;
  private turning: Promise<unknown> = Promise.resolve();
  private sweeping: Promise<DrainReport> | undefined;

  constructor(
    private readonly leases: SweepLeases,
    private readonly pages: PartitionDrain,
    private readonly metrics: MetricsRegistry,
    private readonly worker: Worker,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
  ) {
    this.afterErrorMs = config.sweepIntervalMs;
    // Read at each scrape, so that it also grows while the sweep is stuck.
    this.counts.age.readFrom(() => (config.roles.has('sweeper') ? this.history.ageMs() / 1000 : 0));
  }

  onModuleInit(): void {
    this.worker.add(this);
  }

  async runTurn(turn: Turn): Promise<TurnReport> {
    await this.sweeping;
    const running = this.sweepWhatIsDue(turn);
    this.turning = running.catch(() => undefined);
    return running;
  }

  restarted(): void {
    this.counts.restarts.inc();
    this.turning = Promise.resolve();
  }

  async drain(): Promise<void> {
    await this.sweeping;
    await this.leases.leave();
  }

  /**
   * Sweeps all partitions once, however long it takes, even those leased by other instances: a second sweeper is harmless, because only
   * lua/expiry/expire_page.lua decides. Joins a sweep in progress, and waits for a turn to end. Never rejects: failures are in the report.
   */
  sweep(): Promise<DrainReport> {
    this.sweeping ??= this.turning
      .then(() => {
        const all = Array.from({ length: this.leases.partitions }, (_, partition) => partition);
        return this.sweepNow(all, () => true);
      })
      .finally(() => {
        this.sweeping = undefined;
      });
    return this.sweeping;
  }

  /** Sweeps these partitions without a lease, beside turns. Never rejects, as above. */
  sweepNow(partitions: readonly number[], goesOn: () => boolean): Promise<DrainReport> {
    const own = partitions.map((number) => new SweepPartition(number));
    return this.pages.run(own, { token: '', goesOn, lost: () => undefined });
  }

  /** Readiness: the time since the last sweep without a failure, and how long due holds have waited for this sweeper. */
  health(): HealthReport {
    const limitMs = this.config.sweepAlertMs;
    const { held } = this;
    const now = performance.now();
    const ageMs = this.history.ageMs();
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

  private async sweepWhatIsDue(turn: Turn): Promise<TurnReport> {
    const began = performance.now();
    const beat = await this.leases.beatWhenDue(() => JSON.stringify(this.history.report(this.held)), turn);
    if (beat !== undefined) {
      this.beatFailed = beat.failed > 0;
      this.lastBeat =
        beat.nowMs === undefined ? this.lastBeat : { redisMs: beat.nowMs, at: performance.now() };
    }
    const due = this.held.filter(({ dueFrom }) => dueFrom <= performance.now());
    const report = await this.pages.run(due, {
      token: this.leases.instance,
      goesOn: withinBudget(() => turn.goesOn()),
      lost: (partition) => this.leases.lose(partition),
    });
    const failed = report.failed + (beat?.failed ?? 0);
    const outcome = failed === 0 && !this.beatFailed ? 'success' : 'failed';
    if (turn.goesOn()) {
      this.record({ ...report, failed }, performance.now() - began, outcome === 'success');
    }
    return { sleepMs: report.cut ? 0 : this.sleepMs(), outcome };
  }

  private get held(): SweepPartition[] {
    return [...this.leases.held.values()];
  }

  private record(report: DrainReport, durationMs: number, succeeded: boolean): void {
    this.history.add({ at_ms: this.redisNowMs(), duration_ms: durationMs, ...report }, succeeded);
    if (succeeded) {
      this.counts.lastSuccess.set(this.redisNowMs() / 1000);
    }
    const figures = totals(this.held);
    this.counts.leases.set(this.leases.held.size);
    this.counts.instances.set(this.leases.alive);
    this.counts.backlog.set(figures.backlog);
    this.counts.oldestDue.set(figures.oldest_due_for_ms / 1000);
    this.counts.quarantined.set(figures.quarantined);
    this.counts.awaitingCleanup.set(figures.awaiting_cleanup);
    this.counts.oldestAwaiting.set(figures.oldest_awaiting_for_ms / 1000);
  }

  /** For display only: Redis' time at the last beat plus the time since. */
  private redisNowMs(): number {
    return this.lastBeat === undefined
      ? 0
      : Math.round(this.lastBeat.redisMs + performance.now() - this.lastBeat.at);
  }

  private sleepMs(): number {
    const wakeAt = Math.min(this.leases.nextBeatAt, ...this.held.map(({ dueFrom }) => dueFrom));
    return Math.max(SHORTEST_SLEEP_MS, Math.ceil(wakeAt - performance.now()));
  }
}

function withinBudget(isCurrent: () => boolean): () => boolean {
  const deadline = performance.now() + TURN_BUDGET_MS;
  return () => isCurrent() && performance.now() <= deadline;
}
