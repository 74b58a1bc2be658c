import { AsyncLocalStorage } from 'node:async_hooks';
import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import timersPromises from 'node:timers/promises';

/** A simulated process. Its code runs in `WorldTime.as`, and everything that it waits for ends with it. */
export class Actor {
  isAlive = true;
  /**
   * False while Nest builds it, because Nest prefetches random numbers for all instances of this process
   * together.
   */
  isAssembled = true;

  constructor(readonly name: string) {}
}

/** A timer of a simulated process, with the methods of a real one. */
class Timer {
  constructor(
    readonly actor: Actor,
    public at: number,
    readonly order: number,
    readonly run: () => void,
    readonly everyMs?: number,
  ) {}

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }
}

interface Real {
  readonly setTimeout: typeof setTimeout;
  readonly clearTimeout: typeof clearTimeout;
  readonly setInterval: typeof setInterval;
  readonly clearInterval: typeof clearInterval;
  readonly random: typeof Math.random;
  readonly delay: typeof timersPromises.setTimeout;
  readonly randomBytes: typeof crypto.randomBytes;
}

/** Far in the future, so that no key expires by the clock of the Redis that runs the play. */
export const FIRST_INSTANT = Date.UTC(2100, 0, 1);

/**
 * The time of a play, which passes only when the play says so. An actor's code sees it through timers and
 * `performance.now`, and gets numbers from the play's seed through `Math.random` and `randomBytes`. All other
 * code of the process uses the real ones.
 */
export class WorldTime {
  nowMs = FIRST_INSTANT;
  private readonly actors = new AsyncLocalStorage<Actor>();
  private timers: Timer[] = [];
  private count = 0;
  private real: Real | undefined;

  constructor(readonly random: () => number) {}

  as<T>(actor: Actor, work: () => T): T {
    return this.actors.run(actor, work);
  }

  /** When the next timer is due. */
  get nextAt(): number {
    return this.timers.reduce((first, { at }) => Math.min(first, at), Infinity);
  }

  /** Removes an actor's timers, because a dead process never wakes up. */
  end(actor: Actor): void {
    actor.isAlive = false;
    this.timers = this.timers.filter((timer) => timer.actor !== actor);
  }

  /** Runs the timers that are due, in order. */
  wake(): void {
    const due = this.timers.filter(({ at }) => at <= this.nowMs);
    due.sort((one, other) => one.at - other.at || one.order - other.order);
    for (const timer of due) {
      // A timer that ran earlier may have removed it.
      if (this.timers.includes(timer)) {
        if (timer.everyMs === undefined) {
          this.clear(timer);
        } else {
          timer.at = this.nowMs + timer.everyMs;
        }
        this.as(timer.actor, timer.run);
      }
    }
  }

  install(): void {
    const { actors } = this;
    const real: Real = {
      setTimeout,
      clearTimeout,
      setInterval,
      clearInterval,
      random: Math.random,
      delay: timersPromises.setTimeout,
      randomBytes: crypto.randomBytes,
    };
    this.real = real;
    const start = (repeats: boolean) => {
      const original = (repeats ? real.setInterval : real.setTimeout) as (...given: unknown[]) => unknown;
      return (run: (...args: unknown[]) => void, ms = 1, ...args: unknown[]): unknown => {
        const actor = actors.getStore();
        return actor === undefined
          ? original(run, ms, ...args)
          : this.start(actor, ms, () => run(...args), repeats);
      };
    };
    const clear = (timer: unknown): void =>
      timer instanceof Timer ? this.clear(timer) : real.clearTimeout(timer as NodeJS.Timeout);
    Object.assign(globalThis, {
      setTimeout: start(false),
      setInterval: start(true),
      clearTimeout: clear,
      clearInterval: clear,
    });
    Math.random = () => (actors.getStore()?.isAssembled === true ? this.random() : real.random());
    const now = performance.now.bind(performance);
    performance.now = () => (actors.getStore() === undefined ? now() : this.nowMs - FIRST_INSTANT);
    Object.assign(timersPromises, {
      setTimeout: <T>(ms?: number, value?: T, options?: object): Promise<T | undefined> => {
        const actor = actors.getStore();
        return actor === undefined
          ? real.delay(ms, value, options)
          : new Promise((resolve) => this.start(actor, ms ?? 1, () => resolve(value), false));
      },
    });
    Object.assign(crypto, {
      randomBytes: (size: number): Buffer =>
        actors.getStore() === undefined
          ? real.randomBytes(size)
          : Buffer.from(Array.from({ length: size }, () => Math.floor(this.random() * 256))),
    });
    syncBuiltinESMExports();
  }

  uninstall(): void {
    if (this.real !== undefined) {
      const { random, delay, randomBytes, ...timers } = this.real;
      Object.assign(globalThis, timers);
      Math.random = random;
      Reflect.deleteProperty(performance, 'now');
      Object.assign(timersPromises, { setTimeout: delay });
      Object.assign(crypto, { randomBytes });
      syncBuiltinESMExports();
      this.real = undefined;
    }
    this.timers = [];
  }

  private start(actor: Actor, ms: number, run: () => void, repeats: boolean): Timer {
    const afterMs = Math.max(1, Math.ceil(ms));
    const timer = new Timer(actor, this.nowMs + afterMs, this.count++, run, repeats ? afterMs : undefined);
    // A dead process starts nothing.
    if (actor.isAlive) {
      this.timers.push(timer);
    }
    return timer;
  }

  private clear(timer: Timer): void {
    this.timers = this.timers.filter((other) => other !== timer);
  }
}
