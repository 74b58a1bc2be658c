import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { type RedisService, StoreUnavailable } from '../redis/index.js';
import type { Logger } from '../telemetry/index.js';
import type { Turn } from './worker.js';

/** What one beat found out. */
export interface BeatReport {
  /** Partitions, and the announcement, that could not be asked for. */
  readonly failed: number;
  /** Redis' time, as far as anything answered. */
  readonly nowMs: number | undefined;
}

interface Beat extends BeatReport {
  /** When a lease or an announcement of another lapses, if this instance waits for one; by the monotonic clock. */
  readonly nextLapseAt: number;
}

export interface LeasedPartition {
  readonly number: number;
  readonly code: string;
  readonly tag: string;
}

/** What came of asking for one lease. */
export type LeaseAnswer =
  { readonly word: 'held' | 'taken' } | { readonly word: 'other'; readonly lapsesInMs: number };

/** One kind of work that the partitions are shared for. */
export interface LeaseTerms<P extends LeasedPartition> {
  /** What is done to a partition, for the log: `swept`, `dispatched`. */
  readonly work: string;
  readonly leaseMs: number;
  readonly instancesKey: string;
  readonly reportsKey: string;
  readonly leaseKey: (tag: string) => string;
  readonly partition: (number: number) => P;
  /** The longest pause between two beats. */
  readonly beatMs: number;
  /**
   * Takes or renews the lease of one partition by its own script, which looks at the partition in the same run.
   * @throws StoreUnavailable, or what is wrong with this partition.
   */
  readonly ask: (partition: P, token: string) => Promise<LeaseAnswer>;
  /** Whether nothing is under way in a partition that is to be given to another instance; asked again at the next beat. */
  readonly mayLeave: (partition: P) => boolean;
  readonly changed: (change: 'taken' | 'lost' | 'released', partition: P) => void;
  readonly announcementFailed: () => void;
}

interface Asked {
  readonly word: LeaseAnswer['word'] | undefined;
  readonly lapsesAt: number;
}

/** Leases that are renewed in one go, and the pause behind them, so that requests need not wait for all of them. */
const RENEWED_AT_ONCE = 32;
const RENEWAL_PAUSE_MS = 10;
/** The longest that one beat looks for free partitions; the next one goes on. */
const TAKE_BUDGET_MS = 500;
const SHORTEST_PAUSE_MS = 20;

/**
 * Which partitions this instance works on.
 *
 * A lease is a key per partition that holds its owner's token and lapses by itself. One script takes or renews it and looks at
 * the partition in the same run, so a lease is never held without knowing what is there; another deletes it only for the token
 * that it holds, so an old owner can neither renew nor delete a new owner's lease.
 *
 * Instances announce themselves in one sorted set. P partitions among n of them: each is entitled to P/n, the first
 * P mod n in the order of their names to one more, so that the shares are exactly P. Whoever holds more lets go of it, and
 * whoever holds less takes what is free. An instance that dies stops renewing both, so that within one lease its share
 * passes to the others. Until then, and when two views of the living differ, a partition may be worked on by nobody or
 * twice: the first is bounded by the lease, and the second must be harmless to whatever the work is.
 */
export class PartitionLeases<P extends LeasedPartition> {
  /** Names this process among all that ever were, to operators and as the token of its leases. */
  readonly instance = `${hostname()}:${process.pid}:${randomBytes(6).toString('hex')}`;
  readonly held = new Map<number, P>();
  /** How many instances share the work, by the last announcement that was answered. */
  alive = 1;
  /** When the next beat is due, by the monotonic clock. */
  nextBeatAt = 0;
  private place = 0;
  private readonly failing = new Set<number>();

  constructor(
    private readonly redis: RedisService,
    private readonly logger: Logger,
    private readonly terms: LeaseTerms<P>,
  ) {}

  /** How many partitions there are to share. */
  get partitions(): number {
    return this.redis.partitions;
  }

  /**
   * Renews what is held, and takes or lets go until it is this instance's share, if the beat is due. Never rejects.
   * @param report what this instance tells of itself with its announcement
   * @returns undefined when no beat was due
   */
  async beatWhenDue(report: () => string, turn: Turn): Promise<BeatReport | undefined> {
    const began = performance.now();
    if (began < this.nextBeatAt) {
      return undefined;
    }
    const { nextLapseAt, ...found } = await this.beat(report(), turn);
    // A beat a little early keeps the interval a promise, and the spread keeps instances out of step.
    const regularAt = began + this.terms.beatMs * (0.9 + Math.random() * 0.1);
    this.nextBeatAt = Math.min(regularAt, Math.max(nextLapseAt, performance.now() + SHORTEST_PAUSE_MS));
    return found;
  }

  private async beat(report: string, turn: Turn): Promise<Beat> {
    const before = [...this.held.values()];
    const [announced, renewed] = await Promise.all([this.announce(report), this.renew(before)]);
    if (!turn.goesOn()) {
      return { failed: 0, nowMs: announced.nowMs, nextLapseAt: Number.POSITIVE_INFINITY };
    }
    for (const [index, outcome] of renewed.entries()) {
      if (outcome.word === 'other') {
        this.lose(before[index] as P);
      }
    }
    const asked = [...renewed];
    const surplus = this.held.size - this.share();
    if (surplus > 0) {
      await this.letGo(
        [...this.held.values()].slice(-surplus).filter((partition) => this.terms.mayLeave(partition)),
      );
    } else {
      asked.push(...(await this.take(-surplus)));
    }
    return {
      failed: asked.filter(({ word }) => word === undefined).length + (announced.nowMs === undefined ? 1 : 0),
      nowMs: announced.nowMs,
      nextLapseAt: Math.min(announced.nextLapseAt, ...asked.map(({ lapsesAt }) => lapsesAt)),
    };
  }

  /** Another instance has it. */
  lose(partition: P): void {
    if (this.held.get(partition.number) === partition) {
      this.held.delete(partition.number);
      this.terms.changed('lost', partition);
      this.logger.warn({ partition: partition.code }, 'the lease of a partition passed to another instance');
    }
  }

  /** Gives everything up, so that the others need not wait for it to lapse. Never rejects. */
  async leave(): Promise<void> {
    await this.letGo([...this.held.values()]);
    const { client } = this.redis;
    const { instancesKey, reportsKey } = this.terms;
    await Promise.allSettled([
      client.zrem(instancesKey, this.instance),
      client.hdel(reportsKey, this.instance),
    ]);
  }

  private share(): number {
    const { partitions } = this.redis;
    return Math.floor(partitions / this.alive) + (this.place < partitions % this.alive ? 1 : 0);
  }

  private async announce(report: string): Promise<{ nowMs: number | undefined; nextLapseAt: number }> {
    const { instancesKey, reportsKey, leaseMs, work } = this.terms;
    try {
      const { nowMs, alive, place, nextLapseInMs } = await this.redis.scripts.call(
        'lease_announce',
        { instances: instancesKey, reports: reportsKey },
        { instance: this.instance, leaseMs, report },
      );
      this.alive = alive;
      this.place = place;
      return { nowMs, nextLapseAt: performance.now() + (nextLapseInMs ?? Number.POSITIVE_INFINITY) };
    } catch (error) {
      // What this instance holds, it goes on working on: in a cluster only the announcements' node may be away.
      this.terms.announcementFailed();
      this.logger.warn(
        { err: error, work },
        'this instance could not announce itself; it goes on with what it holds',
      );
      return { nowMs: undefined, nextLapseAt: Number.POSITIVE_INFINITY };
    }
  }

  /** Asks for all without waiting for the answers in between, so that an outage takes no longer than for one. */
  private async renew(partitions: readonly P[]): Promise<Asked[]> {
    const asked: Promise<Asked>[] = [];
    for (let start = 0; start < partitions.length; start += RENEWED_AT_ONCE) {
      if (start > 0) {
        await delay(RENEWAL_PAUSE_MS);
      }
      asked.push(
        ...this.redis.inOneWrite(() =>
          partitions.slice(start, start + RENEWED_AT_ONCE).map((partition) => this.ask(partition)),
        ),
      );
    }
    return Promise.all(asked);
  }

  /** Takes or renews one lease. An error is told when it starts and when it ends, and counted every time. */
  private async ask(partition: P): Promise<Asked> {
    try {
      const answer = await this.terms.ask(partition, this.instance);
      if (this.failing.delete(partition.number)) {
        this.logger.info({ partition: partition.code }, `a partition can be ${this.terms.work} again`);
      }
      if (answer.word === 'other') {
        return { word: 'other', lapsesAt: performance.now() + answer.lapsesInMs };
      }
      if (answer.word === 'taken') {
        this.terms.changed('taken', partition);
      }
      return { word: answer.word, lapsesAt: Number.POSITIVE_INFINITY };
    } catch (error) {
      // An outage is told once by the connection; a defect of one partition is told here.
      if (!(error instanceof StoreUnavailable) && !this.failing.has(partition.number)) {
        this.failing.add(partition.number);
        this.logger.error(
          { err: error, partition: partition.code },
          `a partition cannot be ${this.terms.work}; the others go on`,
        );
      }
      return { word: undefined, lapsesAt: Number.POSITIVE_INFINITY };
    }
  }

  /** Takes free partitions, no more at a time than are wanted, starting where no other instance of the same age starts. */
  private async take(wanted: number): Promise<Asked[]> {
    const { partitions } = this.redis;
    const start = Math.floor((this.place * partitions) / this.alive);
    const candidates = Array.from({ length: partitions }, (_, index) => (start + index) % partitions).filter(
      (number) => !this.held.has(number),
    );
    const outcomes: Asked[] = [];
    const deadline = performance.now() + TAKE_BUDGET_MS;
    let missing = wanted;
    while (missing > 0 && candidates.length > 0 && performance.now() < deadline) {
      const batch = candidates.splice(0, missing).map((number) => this.terms.partition(number));
      const asked = await Promise.all(batch.map((partition) => this.ask(partition)));
      for (const [index, { word }] of asked.entries()) {
        if (word === 'taken' || word === 'held') {
          const partition = batch[index] as P;
          this.held.set(partition.number, partition);
          missing -= 1;
        }
      }
      outcomes.push(...asked);
    }
    return outcomes;
  }

  /** What cannot be deleted lapses by itself. */
  private async letGo(partitions: readonly P[]): Promise<void> {
    for (const partition of partitions) {
      this.held.delete(partition.number);
      this.terms.changed('released', partition);
    }
    const { leaseKey } = this.terms;
    await Promise.allSettled(
      partitions.map(({ tag }) =>
        this.redis.scripts.call('lease_release', { lease: leaseKey(tag) }, { token: this.instance }),
      ),
    );
  }
}
