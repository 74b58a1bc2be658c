import type { TenantCaller } from '../../auth/index.js';
import type { Refusal } from '../../ledger/index.js';

/** Why a waiter goes on: it may be its turn, or its wait ends. */
export type Signal = 'turn' | 'over' | 'gone' | 'draining';

/** What a waiter wants, and for how long. */
export interface Patience {
  readonly waitMs: number;
  /** Judges the caller again, as if the request came now. @throws Refusal, StoreUnavailable */
  readonly readmit: () => Promise<TenantCaller>;
  /** Aborted when the client has disconnected. */
  readonly gone: AbortSignal;
  /** Set at the end: how long it had a place in a queue. */
  waitedMs: number;
}

/** What is wanted by a reserve that may wait. */
export interface Wanted {
  readonly tenantId: string;
  readonly unit: string;
  readonly amount: number | bigint;
  readonly idempotencyKey: string;
  readonly patience: Patience;
  /** Judges again whether the caller may reserve this. @throws Refusal, StoreUnavailable */
  readonly readmit: () => Promise<void>;
}

/** A reserve that waits for funds, or will if it is refused. A signal that comes while it is being run again is not lost. */
export class Waiter {
  /** The number of its arrival, once it has a place in a queue, and the scope of that queue. */
  number = '-';
  scope = '-';
  /** Whether a run of it is under way, so that it may be about to leave the queue. */
  isRunning = false;
  /** Whether its latest run got no answer from Redis. */
  isInDoubt = false;
  wakeUps = 0;
  /** Why the caller may no longer act. */
  barred: Refusal | undefined;
  private readonly until: number;
  private readonly timer: NodeJS.Timeout;
  private readonly leave = (): void => this.end('gone');
  private isDue = false;
  private ended: Exclude<Signal, 'turn'> | undefined;
  private signalled: (() => void) | undefined;

  /** @param place its name in the queue: see lua/lib/waking.lua */
  constructor(
    readonly place: string,
    readonly wanted: Wanted,
  ) {
    const { patience } = wanted;
    this.until = performance.now() + patience.waitMs;
    this.timer = setTimeout(() => this.end('over'), patience.waitMs);
    if (patience.gone.aborted) {
      this.leave();
    } else {
      patience.gone.addEventListener('abort', this.leave);
    }
  }

  get isPlaced(): boolean {
    return this.number !== '-';
  }

  /** How much longer it may wait; 0 once its wait has ended. */
  get leftMs(): number {
    return this.ended === undefined ? Math.max(1, Math.ceil(this.until - performance.now())) : 0;
  }

  wake(): void {
    this.isDue = true;
    this.wakeUps += 1;
    this.signalled?.();
  }

  /** Its next run throws the refusal. */
  bar(refusal: Refusal): void {
    this.barred = refusal;
    this.wake();
  }

  end(why: Exclude<Signal, 'turn'>): void {
    this.ended ??= why;
    this.signalled?.();
  }

  /** Resolves at once if a signal has come since the last call. */
  async nextSignal(): Promise<Signal> {
    if (this.ended === undefined && !this.isDue) {
      await new Promise<void>((resolve) => (this.signalled = resolve));
      this.signalled = undefined;
    }
    this.isDue = false;
    return this.ended ?? 'turn';
  }

  /** Frees the timer and the listener. */
  stop(): void {
    clearTimeout(this.timer);
    this.wanted.patience.gone.removeEventListener('abort', this.leave);
  }
}

/** How a wait ended. */
export type WaitOutcome =
  'granted' | 'timed_out' | 'refused' | 'client_gone' | 'drained' | 'failed' | 'not_queued';
