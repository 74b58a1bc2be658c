import { randomBytes } from 'node:crypto';
import { Inject, Injectable, type BeforeApplicationShutdown, type OnApplicationBootstrap } from '@nestjs/common';
import { SchedulerRegistry } from '@nestjs/schedule';
import { CONFIG, type HoldfastConfig } from '../config/index.js';
import { HealthContributors, type HealthReport } from '../health/index.js';
import { LOGGER, type Logger } from '../logging/index.js';
import { partitionCode, RedisService, reservationKey, StoreUnavailable, tagOf, toStoreError, ttlIndexKey } from '../redis/index.js';
import { ExpiryMetrics } from './expiry.metrics.js';

/**
 * Calls of one pipeline. Redis works a pipeline off without a pause, so this bounds how long one batch can hold up
 * everybody else: about 3 ms at 27 µs each.
 */
const PIPELINE_SIZE = 100;
/** The longest a tick may go on; what is still due then is counted as a cut-off and continued by the next tick at once. */
const TICK_BUDGET_MS = 500;
const DAY_MS = 86_400_000;
/** Readiness complains when no sweep has succeeded for this many intervals, and never before the floor. */
const STALE_INTERVALS = 10;
const STALE_FLOOR_MS = 30_000;

/** What one sweep over all partitions did. */
export interface SweepReport {
  /** Redis' time at the start, ms. */
  readonly startedAtMs: number;
  readonly judged: number;
  readonly expired: number;
  /** Partitions and candidates that could not be judged. */
  readonly failed: number;
  /** True when the time budget ended the sweep before everything due was judged. */
  readonly cut: boolean;
}

/**
 * The sweeper: finds what is due in each partition's TTL index and hands every candidate to lua/expire.lua, which alone
 * judges it. Time is Redis' own. Ticks never overlap, are bounded by count and time, and end before shutdown goes on.
 */
@Injectable()
export class ExpiryService implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private running: Promise<SweepReport> | undefined;
  private stopped = false;
  private lastSuccess = performance.now();
  private readonly retentionMs: number;

  constructor(
    private readonly redis: RedisService,
    private readonly metrics: ExpiryMetrics,
    private readonly scheduler: SchedulerRegistry,
    health: HealthContributors,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {
    this.retentionMs = config.auditRetentionDays * DAY_MS;
    if (config.roles.has('sweeper')) {
      health.register({ name: 'sweeper', check: () => this.health() });
    }
  }

  onApplicationBootstrap(): void {
    if (this.config.roles.has('sweeper')) {
      this.schedule(0);
    }
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.stopped = true;
    if (this.scheduler.doesExist('timeout', TICK)) {
      this.scheduler.deleteTimeout(TICK);
    }
    await this.running?.catch(() => undefined);
  }

  /**
   * Sweeps all partitions once. A sweep that is under way is joined, not doubled.
   * @throws StoreUnavailable when not even the time can be asked for.
   */
  sweep(): Promise<SweepReport> {
    this.running ??= this.sweepPartitions().finally(() => {
      this.running = undefined;
    });
    return this.running;
  }

  private schedule(delayMs: number): void {
    if (this.stopped) {
      return;
    }
    this.scheduler.addTimeout(
      TICK,
      setTimeout(() => {
        this.scheduler.deleteTimeout(TICK);
        void this.tick().then((nextMs) => {
          this.schedule(nextMs);
        });
      }, delayMs),
    );
  }

  /** One scheduled sweep. Never rejects; returns when the next one is to start. */
  private async tick(): Promise<number> {
    try {
      const report = await this.sweep();
      const outcome = report.failed === 0 ? 'success' : 'failed';
      this.metrics.sweepEnded(outcome, report.startedAtMs);
      if (outcome === 'success') {
        this.lastSuccess = performance.now();
      }
      return report.cut ? 0 : this.config.sweepIntervalMs;
    } catch (error) {
      this.metrics.sweepEnded('failed', 0);
      this.logger.warn({ err: error }, 'the sweep failed; it is tried again');
      return this.config.sweepIntervalMs;
    }
  }

  private async sweepPartitions(): Promise<SweepReport> {
    const now = await this.redisTimeMs();
    const deadline = performance.now() + TICK_BUDGET_MS;
    const trace = `${randomBytes(16).toString('hex')}-01`;
    const codes = Array.from({ length: this.redis.partitions }, (_, partition) => partitionCode(partition));
    const due = await Promise.allSettled(codes.map((code) => this.duePage(tagOf(code), now)));
    const total = { startedAtMs: now, judged: 0, expired: 0, failed: 0, cut: false };
    for (const [partition, page] of due.entries()) {
      const tag = tagOf(codes[partition] as string);
      try {
        if (page.status === 'rejected') {
          throw toStoreError(page.reason);
        }
        await this.drain(tag, page.value, { now, deadline, trace, total });
      } catch (error) {
        total.failed += 1;
        this.logger.warn({ err: error, partition: codes[partition] }, 'a partition could not be swept; the others go on');
      }
    }
    return total;
  }

  /** Pages back to back, until a page is short, nothing in it moved, or the tick's time is up. */
  private async drain(tag: string, firstPage: string[], sweep: Sweep): Promise<void> {
    let page = firstPage;
    while (page.length > 0) {
      let moved = false;
      for (let start = 0; start < page.length; start += PIPELINE_SIZE) {
        if (this.stopped || performance.now() > sweep.deadline) {
          sweep.total.cut = true;
          this.metrics.pageCut();
          return;
        }
        moved = (await this.judge(tag, page.slice(start, start + PIPELINE_SIZE), sweep)) || moved;
      }
      if (page.length < this.config.sweepBatchSize || !moved) {
        return;
      }
      page = await this.duePage(tag, sweep.now);
    }
  }

  /** Returns whether any candidate left the index. */
  private async judge(tag: string, reservationIds: string[], { trace, total }: Sweep): Promise<boolean> {
    const replies = await this.redis.scripts.runMany(
      'expire',
      reservationIds.map((id) => ({ keys: [reservationKey(tag, id)], args: [id, this.retentionMs, trace] })),
    );
    let moved = false;
    for (const [index, reply] of replies.entries()) {
      total.judged += 1;
      if (reply instanceof Error) {
        this.metrics.candidateFailed();
        if (reply instanceof StoreUnavailable) {
          throw reply;
        }
        total.failed += 1;
        this.logger.error({ err: reply, reservation: reservationIds[index] }, 'a candidate could not be judged; the others go on');
        continue;
      }
      this.metrics.record('sweep', reply, reply[3]);
      moved = moved || reply[1] !== 'in_grace_period';
      total.expired += reply[0] === 'EXPIRED' ? 1 : 0;
      if (reply[0] === 'QUARANTINED') {
        this.logger.warn({ reservation: reservationIds[index], reason: reply[1] }, 'a reservation was quarantined');
      }
    }
    return moved;
  }

  private async duePage(tag: string, now: number): Promise<string[]> {
    return this.redis.client.zrangebyscore(ttlIndexKey(tag), '-inf', `(${now}`, 'LIMIT', 0, this.config.sweepBatchSize);
  }

  private async redisTimeMs(): Promise<number> {
    try {
      const [seconds, microseconds] = await this.redis.client.time();
      return Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000);
    } catch (error) {
      throw toStoreError(error);
    }
  }

  private health(): HealthReport {
    const ageMs = Math.round(performance.now() - this.lastSuccess);
    const limitMs = Math.max(STALE_FLOOR_MS, STALE_INTERVALS * this.config.sweepIntervalMs);
    return { up: ageMs <= limitMs, details: { last_success_age_ms: ageMs, limit_ms: limitMs } };
  }
}

const TICK = 'reservation_expiry';

interface Sweep {
  readonly now: number;
  readonly deadline: number;
  readonly trace: string;
  readonly total: { judged: number; expired: number; failed: number; cut: boolean };
}
