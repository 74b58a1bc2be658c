import type { SchedulerRegistry } from '@nestjs/schedule';
import type { Logger } from '../../telemetry/index.js';

const TICK = 'webhook_dispatch';
const WATCHDOG = 'webhook_dispatch_watchdog';
const WATCHDOG_MS = 1000;
/**
 * Looks of the watchdog that see the loop in the same place before it is called stuck: longer than all the Redis commands of one tick
 * may take. Looks are counted instead of time, because a process that was frozen is late without being stuck.
 */
const STUCK_LOOKS = 10;

export interface PollLoopParts {
  /** One tick. Returns how long to sleep; `isCurrent` turns false when the tick is not wanted any more. */
  readonly tick: (isCurrent: () => boolean) => Promise<number>;
  readonly afterErrorMs: number;
  readonly scheduler: SchedulerRegistry;
  readonly logger: Logger;
  readonly restarted: () => void;
}

/** Runs ticks one after the other; one that stands still is disowned, and a new one started. */
export class PollLoop {
  private generation = 0;
  private running: Promise<void> = Promise.resolve();
  private stopped = true;
  private progress = 0;
  private seen = { progress: -1, looks: 0 };

  constructor(private readonly parts: PollLoopParts) {}

  start(): void {
    this.stopped = false;
    this.schedule(0);
    this.parts.scheduler.addInterval(
      WATCHDOG,
      setInterval(() => this.watch(), WATCHDOG_MS),
    );
  }

  /** Resolves when the tick under way has ended. */
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
    const timeout = setTimeout(() => {
      this.unschedule();
      this.running = this.run();
    }, delayMs);
    this.parts.scheduler.addTimeout(TICK, timeout);
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
    let sleepMs = this.parts.afterErrorMs;
    try {
      sleepMs = await this.parts.tick(() => this.generation === generation);
    } catch (error) {
      this.parts.logger.error(
        { err: error },
        'a look for events failed in a way that nobody expected; the next one is tried',
      );
    }
    if (this.generation === generation) {
      this.progress += 1;
      this.schedule(sleepMs);
    }
  }

  private watch(): void {
    this.seen =
      this.seen.progress === this.progress
        ? { ...this.seen, looks: this.seen.looks + 1 }
        : { progress: this.progress, looks: 0 };
    if (this.seen.looks >= STUCK_LOOKS) {
      this.parts.logger.error(
        { stuck_ms: this.seen.looks * WATCHDOG_MS },
        'THE DISPATCH STOOD STILL AND IS STARTED ANEW',
      );
      this.parts.restarted();
      this.generation += 1;
      this.progress += 1;
      this.schedule(0);
    }
  }
}
