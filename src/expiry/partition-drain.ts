import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import {
  RedisService,
  type ScriptReply,
  reservationKey,
  StoreUnavailable,
  sweepLeaseKey,
  ttlIndexKey,
} from '../redis/index.js';
import { LOGGER, type Logger, MetricsRegistry, type Span, spanIdFrom, Tracing } from '../telemetry/index.js';
import {
  countExpiry,
  countUnjudged,
  type ExpiryOutcome,
  outcomeOf,
  SWEEP_METRICS,
} from './expiry.metrics.js';
import {
  CALL_SIZE,
  type DrainReport,
  LATE_SIDE_BY_SIDE,
  MOST_LATE_CALLS,
  Page,
  type Pass,
  Run,
  SIDE_BY_SIDE,
} from './drain-run.js';
import type { SweepSnapshot, SweepPartition } from './sweep-partition.js';

/** How much slower than the fastest of its pass a call may be without contention. */
const USUAL_WAIT_MS = 2;

/**
 * Judges due holds page by page. Each page is read under a lease that is checked and renewed with the read. lua/expiry/expire_page.lua
 * judges its candidates in batches. If a batch fails, lua/expiry/expire.lua judges each of its candidates separately. Partitions with a
 * backlog take turns, one page each. Small pauses between batches leave part of the time to requests (`sweepTimeShare`), as Redis' active
 * expiry limits itself. A sweep that is late keeps several batches in flight, and does not pause.
 */
@Injectable()
export class PartitionDrain {
  private readonly retentionMs: number = this.config.auditRetentionMs;
  /** Milliseconds of pause per millisecond of work. */
  private readonly pauseRatio: number = 100 / this.config.sweepTimeShare - 1;

  constructor(
    private readonly redis: RedisService,
    private readonly metrics: MetricsRegistry,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
    @Inject(LOGGER) private readonly logger: Logger,
    private readonly tracing: Tracing,
  ) {}

  /** Never rejects: failures are counted, logged, and left for the next pass. */
  async run(partitions: readonly SweepPartition[], pass: Pass): Promise<DrainReport> {
    const traceId = randomBytes(16).toString('hex');
    const span = partitions.length === 0 ? undefined : this.startSpan(traceId, partitions.length);
    const run = new Run(pass, new Set(partitions), `${traceId}-${span?.flags ?? '01'}`);
    const queue = [...partitions].sort((one, other) => one.servedAt - other.servedAt);
    const loops = this.isLate(run) ? LATE_SIDE_BY_SIDE : SIDE_BY_SIDE;
    return this.tracing.during(span, async () => {
      await Promise.all(Array.from({ length: loops }, () => this.serve(queue, run)));
      const { judged, expired, failed, cut } = run.report;
      span?.set({
        'holdfast.sweep.judged': judged,
        'holdfast.sweep.expired': expired,
        'holdfast.sweep.failed': failed,
        'holdfast.sweep.cut': cut,
      });
      return run.report;
    });
  }

  /** The first span of a trace, which the events of the pass belong to. */
  private startSpan(traceId: string, partitions: number): Span | undefined {
    return this.tracing.start(
      'sweep',
      { traceId, flags: '01', spanId: spanIdFrom(traceId) },
      { attributes: { 'holdfast.sweep.partitions': partitions } },
    );
  }

  /** Takes partitions from the queue until it is empty, and appends those with more due holds again. */
  private async serve(queue: SweepPartition[], run: Run): Promise<void> {
    for (
      let partition = this.takeNext(queue, run);
      partition !== undefined;
      partition = this.takeNext(queue, run)
    ) {
      if (!run.pass.goesOn()) {
        this.cut(run);
        return;
      }
      try {
        if (await this.page(partition, run)) {
          queue.push(partition);
        } else {
          run.open.delete(partition);
        }
      } catch (error) {
        run.open.delete(partition);
        run.report.failed += 1;
        partition.dueFrom = performance.now() + this.config.sweepIntervalMs;
        // The connection and the leases log an outage once.
        if (!(error instanceof StoreUnavailable)) {
          this.logger.warn(
            { err: error, partition: partition.code },
            'a partition could not be swept; the others are not affected',
          );
        }
      } finally {
        partition.servedAt = performance.now();
      }
    }
  }

  /**
   * The first, or the latest if the sweep is late. A pass that ends early may have read a page and judged none of it, so turns alone would
   * let some partitions get later and later.
   */
  private takeNext(queue: SweepPartition[], run: Run): SweepPartition | undefined {
    if (!this.isLate(run)) {
      return queue.shift();
    }
    const now = performance.now();
    const latest = queue.reduce(
      (found, partition, index) =>
        partition.overdueMs(now) > (queue[found]?.overdueMs(now) ?? 0) ? index : found,
      0,
    );
    return queue.splice(latest, 1)[0];
  }

  /** @returns whether the partition may have more due holds. */
  private async page(partition: SweepPartition, run: Run): Promise<boolean> {
    const snapshot = await this.read(partition, run);
    if (snapshot === undefined) {
      run.pass.lost(partition);
      return false;
    }
    const readAt = performance.now();
    partition.see(snapshot, readAt);
    const page = new Page(snapshot.reservationIds, readAt);
    await this.judgePage(partition, page, run);
    if (page.isCut) {
      this.cut(run);
      return false;
    }
    if (page.left > 0 || snapshot.reservationIds.length === this.config.sweepBatchSize) {
      partition.due = Math.max(0, snapshot.due - snapshot.reservationIds.length + page.left);
      return true;
    }
    if (run.stayed(partition) > 0) {
      partition.dueFrom = performance.now() + this.config.sweepIntervalMs;
    } else {
      partition.caughtUp(snapshot, readAt);
    }
    return false;
  }

  /**
   * One batch after the other, or several at a time if the sweep is late. Ends early if it becomes late, so that the rest of the page is read
   * again and judged faster. @throws StoreUnavailable when none of the batches is in flight any more
   */
  private async judgePage(partition: SweepPartition, page: Page, run: Run): Promise<void> {
    const wasLate = this.isLate(run);
    const lanes = Array.from({ length: wasLate ? MOST_LATE_CALLS : 1 }, async () => {
      while (page.left > 0 && !page.isCut && (wasLate || !this.isLate(run))) {
        await this.judgeNext(partition, page, run);
      }
    });
    const failed = (await Promise.allSettled(lanes)).find(({ status }) => status === 'rejected');
    if (failed !== undefined) {
      throw (failed as PromiseRejectedResult).reason;
    }
  }

  private async judgeNext(partition: SweepPartition, page: Page, run: Run): Promise<void> {
    const batch = page.take(CALL_SIZE);
    await run.calls.take(batch.length);
    try {
      // If the lease expired meanwhile, for example in a frozen process, another instance may hold it now and judge this page.
      if (page.isCut || !run.pass.goesOn() || performance.now() - page.readAt > this.config.sweepLeaseMs) {
        page.isCut = true;
        return;
      }
      const began = performance.now();
      await this.judge(partition, batch, run);
      // Candidates stay reserved during the pause; otherwise another partition would use it.
      await this.rest(performance.now() - began, batch.length, run);
    } catch (error) {
      page.isCut = true;
      throw error;
    } finally {
      run.calls.give(batch.length);
    }
  }

  private async read(partition: SweepPartition, run: Run): Promise<SweepSnapshot | undefined> {
    this.metrics.of(SWEEP_METRICS).pages.inc();
    const reply = await this.redis.scripts.call(
      'sweep_page',
      { lease: sweepLeaseKey(partition.tag), ttlIndex: ttlIndexKey(partition.tag) },
      {
        token: run.pass.token,
        leaseMs: this.config.sweepLeaseMs,
        take: 0,
        skip: run.stayed(partition),
        limit: this.config.sweepBatchSize,
      },
    );
    return reply.status === 'HELD' ? reply : undefined;
  }

  /** Candidates that cannot be judged stay due. The next pages of the pass start after them. */
  private async judge(
    { tag, code }: SweepPartition,
    reservationIds: readonly string[],
    run: Run,
  ): Promise<void> {
    const outcomes = await this.judgeTogether(tag, reservationIds, run);
    for (const [index, outcome] of (outcomes ?? (await this.judgeEach(tag, reservationIds, run))).entries()) {
      run.report.judged += 1;
      if (outcome instanceof Error) {
        countUnjudged(this.metrics);
        run.report.failed += 1;
        run.stays(code);
        this.logger.error(
          { err: outcome, reservation: reservationIds[index] },
          'a candidate could not be judged; the others are not affected',
        );
        continue;
      }
      countExpiry(this.metrics, 'sweep', outcome, outcome.nowMs);
      if (outcomeOf(outcome.word) === 'EXPIRED') {
        run.report.expired += 1;
      } else if (outcome.word === 'QUARANTINED') {
        this.logger.warn(
          { reservation: reservationIds[index], reason: outcome.detail },
          'a reservation was quarantined',
        );
      }
    }
  }

  /** @returns undefined if one of them made the whole batch fail. No due candidate has changed then. */
  private async judgeTogether(
    tag: string,
    reservationIds: readonly string[],
    run: Run,
  ): Promise<Judged[] | undefined> {
    try {
      const { nowMs, outcomes } = await this.redis.scripts.call(
        'expire_page',
        { ttlIndex: ttlIndexKey(tag) },
        { retentionMs: this.retentionMs, trace: run.trace, rest: reservationIds },
      );
      return outcomes.map((outcome) => ({ ...outcome, nowMs }));
    } catch (error) {
      if (error instanceof StoreUnavailable) {
        countUnjudged(this.metrics);
        throw error;
      }
      return undefined;
    }
  }

  private async judgeEach(
    tag: string,
    reservationIds: readonly string[],
    run: Run,
  ): Promise<(Judged | Error)[]> {
    const outcomes = await this.redis.scripts.callMany(
      'expire',
      reservationIds.map((reservationId) => ({
        keys: { reservation: reservationKey(tag, reservationId) },
        args: { reservationId, retentionMs: this.retentionMs, trace: run.trace },
      })),
    );
    const outage = outcomes.find((outcome) => outcome instanceof StoreUnavailable);
    if (outage !== undefined) {
      countUnjudged(this.metrics);
      throw outage;
    }
    return outcomes.map((outcome) => (outcome instanceof Error ? outcome : judgedOf(outcome)));
  }

  /**
   * The pause after a call: what the share of time requires, or as long as the call waited for others, whichever is longer. So a backlog
   * drains fast on a quiet Redis and slowly on a busy one. A late sweep does not pause: beside saturating load, even its fastest call has
   * mostly waited, so a share of it would be one of the wait. Pauses add up until a timer can measure them;
   * oversleeping counts towards later ones.
   */
  private async rest(workedMs: number, candidates: number, run: Run): Promise<void> {
    run.fastestMs = Math.min(run.fastestMs, workedMs / candidates);
    if (run.isLate) {
      return;
    }
    run.owedMs += Math.max(workedMs * this.pauseRatio, workedMs - run.fastestMs * candidates - USUAL_WAIT_MS);
    if (run.owedMs >= 1) {
      this.metrics.of(SWEEP_METRICS).pauses.inc();
      const began = performance.now();
      await delay(Math.floor(run.owedMs));
      run.owedMs -= performance.now() - began;
    }
  }

  /** Whether it is now. The first time in a pass is counted. */
  private isLate(run: Run): boolean {
    const { isLate } = run;
    if (isLate && !run.wasLate) {
      run.wasLate = true;
      this.metrics.of(SWEEP_METRICS).late.inc();
    }
    return isLate;
  }

  private cut(run: Run): void {
    if (!run.report.cut) {
      run.report.cut = true;
      this.metrics.of(SWEEP_METRICS).cuts.inc();
    }
  }
}

/** The outcome of one candidate, and Redis' time of its expiry. */
type Judged = ExpiryOutcome & { readonly nowMs?: number };

function judgedOf(reply: ScriptReply<'expire'>): Judged {
  switch (reply.status) {
    case 'EXPIRED':
    case 'CHARGED':
      return {
        word: reply.status,
        detail: reply.tenant,
        secondDetail: String(reply.deadlineMs),
        nowMs: reply.nowMs,
      };
    case 'QUARANTINED':
      return { word: 'QUARANTINED', detail: reply.reason, secondDetail: reply.tenant ?? '' };
    case 'SKIP':
      return { word: 'SKIP', detail: reply.reason };
    case 'NOT_FOUND':
      return { word: 'NOT_FOUND' };
  }
}
