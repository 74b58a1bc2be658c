import { partitionCode, StoreUnavailable, tagOf } from '../redis/index.js';
import type { Turn } from './worker.js';

/** How many of those that a pass has left out an error names. */
const LEFT_OUT_NAMED = 10;

/** Leaves a damaged part out of this pass. */
export type LeaveOut = (name: string, error?: unknown) => void;

export interface Visitor<Place> {
  /** What is said of what a pass has left out, as in `not trimmed: partition 00`. */
  readonly undone: string;
  /**
   * Works on a bounded part of a partition, from where the visit before ended.
   * @returns where to go on; undefined or false at the partition's end
   */
  readonly visit: (
    tag: string,
    place: Place | undefined,
    more: { readonly partition: number; readonly leaveOut: LeaveOut },
  ) => Promise<Place | false | undefined>;
  /** Called when a run ends before its pass does. */
  readonly cut?: () => void;
  /** Called at the end of each pass. */
  readonly ended?: () => void;
  /** Partitions that are visited at the same time. Default: one. */
  readonly atOnce?: number;
}

/**
 * The one way in which background work visits all partitions: in passes, each of which ends every partition, in runs that are bounded by
 * time and go on where the last one stopped. Partitions take turns, a bounded part each, so one with endless work holds up no other; and
 * each pass starts one partition further. A partition in which a visit fails is left out until the next pass, and so is what a visit
 * reports as damaged: the others are worked on, and the run names what was left out.
 */
export class PartitionWalk<Place = true> {
  /** The partitions that the current pass has not ended, in turn, and where to go on. */
  private readonly pending = new Map<number, Place | undefined>();
  private first = 0;
  /** What the last complete pass left out, and what this one has so far, by name, with its error if it has one. */
  private leftOut = new Map<string, unknown>();
  private found = new Map<string, unknown>();

  constructor(private readonly visitor: Visitor<Place>) {}

  readonly leaveOut: LeaveOut = (name, error) => {
    this.found.set(name, error);
  };

  /**
   * Begins a pass over these partitions.
   * @returns whether there are any
   */
  begin(partitions: readonly number[]): boolean {
    partitions.forEach((number) => this.pending.set(number, undefined));
    return partitions.length > 0;
  }

  /** Begins a pass over all partitions, one further than the last one. `run` does so by itself. */
  beginAll(partitions: number): void {
    this.begin(Array.from({ length: partitions }, (_, index) => (this.first + index) % partitions));
    this.first = (this.first + 1) % partitions;
  }

  get isDone(): boolean {
    return this.pending.size === 0;
  }

  /**
   * Visits the next partitions in turn once, for jobs that pace themselves.
   * @returns whether one of them has more
   * @throws StoreUnavailable; those that it concerns keep their places. At the end of the pass, Error that names what it has left out.
   */
  async step(): Promise<boolean> {
    const more = await this.visitNext();
    if (this.isDone) {
      this.end();
      this.requireNothingLeftOut();
    }
    return more;
  }

  private async visitNext(): Promise<boolean> {
    const next = [...this.pending].slice(0, this.visitor.atOnce ?? 1);
    const visits = await Promise.allSettled(next.map(([number, place]) => this.visitOne(number, place)));
    const failure = visits.find(({ status }) => status === 'rejected') as PromiseRejectedResult | undefined;
    if (failure !== undefined) {
      throw failure.reason;
    }
    return visits.some((visit) => visit.status === 'fulfilled' && visit.value);
  }

  private async visitOne(number: number, place: Place | undefined): Promise<boolean> {
    const code = partitionCode(number);
    let next: Place | false | undefined;
    try {
      next = await this.visitor.visit(tagOf(code), place, { partition: number, leaveOut: this.leaveOut });
    } catch (error) {
      if (error instanceof StoreUnavailable) {
        throw error;
      }
      this.leaveOut(`partition ${code}`, error);
    }
    // At the end of the queue: the others come first.
    this.pending.delete(number);
    if (next === undefined || next === false) {
      return false;
    }
    this.pending.set(number, next);
    return true;
  }

  /**
   * Goes on with the pass over all partitions, or begins one.
   * @throws StoreUnavailable, or Error that names what the last complete pass or this one has left out
   */
  async run(partitions: number, budgetMs: number, turn?: Turn): Promise<void> {
    const deadline = performance.now() + budgetMs;
    if (this.isDone) {
      this.beginAll(partitions);
    }
    while (!this.isDone && turn?.goesOn() !== false && performance.now() <= deadline) {
      await this.visitNext();
    }
    if (this.isDone) {
      this.end();
    } else {
      this.visitor.cut?.();
    }
    this.requireNothingLeftOut();
  }

  private end(): void {
    this.leftOut = this.found;
    this.found = new Map();
    this.visitor.ended?.();
  }

  private requireNothingLeftOut(): void {
    const leftOut = new Map([...this.leftOut, ...this.found]);
    if (leftOut.size > 0) {
      const named = [...leftOut.keys()].sort().slice(0, LEFT_OUT_NAMED).join(', ');
      const others = leftOut.size > LEFT_OUT_NAMED ? ` and ${leftOut.size - LEFT_OUT_NAMED} more` : '';
      throw new Error(`${this.visitor.undone}: ${named}${others}`, {
        cause: [...leftOut.values()].find((error) => error !== undefined),
      });
    }
  }
}
