import { setTimeout as delay } from 'node:timers/promises';
import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import type { HealthReport } from '../../telemetry/index.js';
import type { Job, Turn, TurnReport } from '../../worker/index.js';
import { DispatchFigures } from './dispatch-figures.js';
import { DispatchLeases, WEBHOOK_DISPATCH } from './dispatch-leases.js';
import type { DispatchPartition } from './dispatch-partition.js';
import { EventReader } from './event-reader.js';
import { Retries } from './retries.js';
import { SubscriptionTally } from './subscription-tally.js';

/** Random variation of the interval, in both directions, so that instances do not poll in step. */
const JITTER_SHARE = 0.25;
/** Least pause before a poll, so that a slow Redis is not asked without pause. */
const LEAST_PAUSE_MS = 10;
/** How long attempts in flight may take from the start of a shutdown, whatever else the shutdown waits for. */
const DRAIN_MS = 6000;
/** They get at least this long. */
const LAST_CALL_MS = 700;

/**
 * The dispatcher delivers events from the log to their subscribers. A turn reads the logs of the partitions that this instance holds, and
 * starts the retries that are due in them. About once a second it also renews its leases and counts failures that others left uncounted.
 * The attempts run concurrently: first attempts in OrderedQueues, others in Retries.
 */
@Injectable()
export class Dispatcher implements Job {
  readonly name = WEBHOOK_DISPATCH;
  readonly role = 'dispatcher';
  readonly afterErrorMs: number = this.config.webhookPollMs;
  private endingSince: number | undefined;

  constructor(
    private readonly leases: DispatchLeases,
    private readonly reader: EventReader,
    private readonly retries: Retries,
    private readonly tally: SubscriptionTally,
    private readonly figures: DispatchFigures,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
  ) {}

  async runTurn(turn: Turn): Promise<TurnReport> {
    if (this.endingSince !== undefined) {
      return { sleepMs: this.config.webhookPollMs };
    }
    const beganAt = performance.now();
    const outcome = await this.beat(turn);
    const active = this.leases.own.filter((partition) => partition.active);
    const readable = await this.reader.withEvents(active);
    const now = performance.now();
    const [read] = await Promise.all([
      this.leases.each(readable, (partition) => this.reader.readPartition(partition, turn)),
      this.leases.each(
        active.filter(({ retriesAt }) => retriesAt <= now),
        (partition) => this.retries.startDue(partition),
      ),
    ]);
    return { sleepMs: read.includes(true) ? 0 : this.sleepMs(active, beganAt), ...outcome };
  }

  restarted(): void {
    this.figures.restarted();
    this.leases.own.forEach((partition) => partition.beginAnew());
  }

  health(): HealthReport {
    return this.figures.health();
  }

  /** Starts nothing any more. Attempts in flight continue. */
  stopping(): void {
    this.endingSince = performance.now();
    this.reader.close();
    this.retries.close();
  }

  async drain(): Promise<void> {
    const leftMs = Math.max(LAST_CALL_MS, DRAIN_MS - (performance.now() - (this.endingSince ?? 0)));
    await within(leftMs, Promise.all(this.leases.all.map((partition) => partition.idle())));
    await within(LAST_CALL_MS, this.tally.flush());
    await within(LAST_CALL_MS, this.leases.leave());
  }

  /** @returns undefined if no beat was due */
  private async beat(turn: Turn): Promise<Pick<TurnReport, 'outcome' | 'durationMs'> | undefined> {
    const began = performance.now();
    const report = JSON.stringify({ partitions: this.leases.held.size });
    const beat = await this.leases.beatWhenDue(() => report, turn);
    if (beat === undefined) {
      return undefined;
    }
    const recoveries = this.leases.own
      .filter(({ active, toRecover }) => active && toRecover > 0)
      .map((partition) => this.tally.recover(partition));
    const settled = await Promise.allSettled([...recoveries, this.tally.flush()]);
    const isGood = beat.failed === 0 && settled.every(({ status }) => status === 'fulfilled');
    this.figures.beat(isGood);
    return { outcome: isGood ? 'success' : 'failed', durationMs: performance.now() - began };
  }

  /** Time until the next poll, which counts from the beginning of this one, or the next due retry. */
  private sleepMs(active: readonly DispatchPartition[], beganAt: number): number {
    const pollMs = this.config.webhookPollMs * (1 - JITTER_SHARE + Math.random() * 2 * JITTER_SHARE);
    const now = performance.now();
    const pollAt = Math.max(beganAt + pollMs, now + LEAST_PAUSE_MS);
    const retriesAt = Math.min(...active.map((partition) => partition.retriesAt));
    return Math.max(0, Math.min(pollAt, retriesAt) - now);
  }
}

/** Waits for the work, but at most for `ms`. */
async function within(ms: number, work: Promise<unknown>): Promise<void> {
  await Promise.race([work.catch(() => undefined), delay(ms, undefined, { ref: false })]);
}
