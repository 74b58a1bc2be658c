import { SchedulerRegistry } from '@nestjs/schedule';
import type { Logger } from '../telemetry/index.js';

const TICK = 'reservation_expiry';
const WATCHDOG = 'reservation_expiry_watchdog';
const WATCHDOG_MS = 1000;
/**
 * Looks of the watchdog that see the loop in the same place before it is called stuck. A tick is bounded by its own
 * budget and by the time that Redis commands may take, which together stay below this. Looks are counted instead of time,
 * because a process that was frozen is late without being stuck.
 */
const STUCK_LOOKS = 8;

export interface SweepLoopParts {
  /** One tick. Returns how long to sleep; `isCurrent` turns false when the tick is not wanted any more. */
  readonly tick: (isCurrent: () => boolean) => Promise<number>;
  /** The longest sleep that a tick asks for. */
  readonly longestSleepMs: number;
  readonly scheduler: SchedulerRegistry;
  readonly logger: Logger;
  readonly restarted: () => void;
}

/**
 * Runs ticks one after the other, for as long as the process lives. Sweepers elsewhere tend to stop without a word when a
 * promise is lost in a reconnect, so a watchdog sees to it that the loop moves: a tick that stands still is disowned
 * (its `isCurrent` turns false, which it asks before everything it does) and a new one started.
 */
export class SweepLoop {
  private generation = 0;
  private running: Promise<void> = Promise.resolve();
  private stopped = true;
  /** Changes whenever the loop gets anywhere. */
  private progress = 0;
  private seen = { progress: -1, looks: 0 };

  constructor(private readonly parts: SweepLoopParts) {}

  start(): void {
    this.stopped = false;
    this.schedule(0);
    this.parts.scheduler.addInterval(
      WATCHDOG,
      setInterval(() => this.watch(), WATCHDOG_MS),
    );
  }

  /** Resolves when the tick under way has ended; it ends at its next batch. */
  async stop(): Promise<void> {
    if (this.stopped) {
      return;
    }
    this.stopped = true;
    this.generation += 1;
    this.parts.scheduler.deleteInterval(WATCHDOG);
    this.unschedule();
    await this.running;
  }

  private schedule(delayMs: number): void {
    if (this.stopped) {
      return;
    }
    this.unschedule();
    this.parts.scheduler.addTimeout(
      TICK,
      setTimeout(() => {
        this.unschedule();
        this.running = this.run();
      }, delayMs),
    );
  }

  private unschedule(): void {
    if (this.parts.scheduler.doesExist('timeout', TICK)) {
      this.parts.scheduler.deleteTimeout(TICK);
    }
  }

  /** Never rejects. */
  private async run(): Promise<void> {
    const generation = ++this.generation;
    this.progress += 1;
    let sleepMs = this.parts.longestSleepMs;
    try {
      sleepMs = await this.parts.tick(() => this.generation === generation);
    } catch (error) {
      this.parts.logger.error(
        { err: error },
        'a sweep failed in a way that nobody expected; the next one is tried',
      );
    }
    if (this.generation === generation) {
      this.progress += 1;
      this.schedule(sleepMs);
    }
  }

  private watch(): void {
    const sleepingLooks = Math.ceil(this.parts.longestSleepMs / WATCHDOG_MS);
    this.seen =
      this.seen.progress === this.progress
        ? { ...this.seen, looks: this.seen.looks + 1 }
        : { progress: this.progress, looks: 0 };
    if (this.seen.looks >= STUCK_LOOKS + sleepingLooks) {
      this.parts.logger.error(
        { stuck_ms: this.seen.looks * WATCHDOG_MS },
        'THE SWEEP STOOD STILL AND IS STARTED ANEW',
      );
      this.parts.restarted();
      this.generation += 1;
      this.progress += 1;
      this.schedule(0);
    }
  }
}
