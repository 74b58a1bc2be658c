import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { type RedisService, StoreUnavailable } from '../redis/index.js';
import type { Logger } from '../telemetry/index.js';
import { FailureStreak } from './failure-streak.js';
import type { Turn } from './worker.js';

/** The result of one beat. */
export interface BeatReport {
  /** Partitions, plus the announcement, whose requests failed. */
  readonly failed: number;
  /** Redis' time, if Redis answered. */
  readonly nowMs: number | undefined;
}

interface Beat extends BeatReport {
  /** When the next lease or announcement of another instance lapses, by the monotonic clock. Infinity if none is waited for. */
  readonly nextLapseAt: number;
}

export interface LeasedPartition {
  readonly number: number;
  readonly code: string;
  readonly tag: string;
}

/** The reply of a script that takes or renews one lease. */
export type LeaseReply =
  | { readonly status: 'HELD'; readonly lease: string }
  | { readonly status: 'OTHER'; readonly lapsesInMs: number }
  | { readonly status: 'FREE' };

/** One kind of work that instances share by partitions. */
export interface LeaseTerms<P extends LeasedPartition> {
  /** What happens to a partition, for the log: `swept`, `dispatched`. */
  readonly work: string;
  readonly leaseMs: number;
  readonly instancesKey: string;
  readonly reportsKey: string;
  readonly leaseKey: (tag: string) => string;
  readonly partition: (number: number) => P;
  /** Longest pause between two beats. */
  readonly beatMs: number;
  /**
   * Takes or renews the lease of one partition with a script that also reads the state of the partition.
   * @throws StoreUnavailable, or an error of this partition.
   */
  readonly ask: (partition: P, token: string) => Promise<LeaseReply>;
  /** Whether a partition may be given to another instance, because no work is in flight. If not, the next beat asks again. */
  readonly mayLeave: (partition: P) => boolean;
  readonly changed: (change: 'taken' | 'lost' | 'released', partition: P) => void;
  readonly announcementFailed: () => void;
}

interface Asked {
  readonly word: 'held' | 'taken' | 'other' | undefined;
  readonly lapsesAt: number;
}

/** Leases renewed at a time, and the pause after them, so that requests do not wait for all renewals. */
const RENEWED_AT_ONCE = 32;
const RENEWAL_PAUSE_MS = 10;
/** Longest search of one beat for free partitions. The next beat continues. */
const TAKE_BUDGET_MS = 500;
const SHORTEST_PAUSE_MS = 20;

/**
 * Decides which partitions this instance works on.
 *
 * A lease is a key per partition that holds its owner's token and expires by itself. One script takes or renews it and reads the state of
 * the partition in the same run. Another deletes it only if it holds the caller's token, so a former owner can neither renew nor delete
 * the lease of a new one.
 *
 * Instances announce themselves in one sorted set. Of P partitions, each of n instances is entitled to P/n, and the first P mod n by name
 * to one more. An instance with more gives some up; one with fewer takes free ones. An instance that dies stops renewing both its leases
 * and its announcement, so the others take over its share within one lease. Until then, or while instances disagree about who is alive, a
 * partition may have no worker, or two. The first lasts at most one lease; the work must tolerate the second.
 */
export class PartitionLeases<P extends LeasedPartition> {
  /** A unique name of this process, shown to operators and used as the token of its leases. */
  readonly instance = `${hostname()}:${process.pid}:${randomBytes(6).toString('hex')}`;
  readonly held = new Map<number, P>();
  /** Instances that share the work, as of the last successful announcement. */
  alive = 1;
  /** When the next beat is due, by the monotonic clock. */
  nextBeatAt = 0;
  private place = 0;
  private readonly failing = new Set<number>();
  private readonly announcements = new FailureStreak(
    this.logger,
    { work: this.terms.work },
    {
      failed: 'this instance could not announce itself; it keeps its partitions',
      again: 'this instance can announce itself again',
    },
  );

  constructor(
    private readonly redis: RedisService,
    private readonly logger: Logger,
    private readonly terms: LeaseTerms<P>,
  ) {}

  /** Total number of partitions. */
  get partitions(): number {
    return this.redis.partitions;
  }

  /**
   * If a beat is due, renews the leases, and takes or gives up partitions to reach this instance's share. Never rejects.
   * @param report returns what this instance announces about itself
   * @returns undefined if no beat was due
   */
  async beatWhenDue(report: () => string, turn: Turn): Promise<BeatReport | undefined> {
    const began = performance.now();
    if (began < this.nextBeatAt) {
      return undefined;
    }
    const { nextLapseAt, ...found } = await this.beat(report(), turn);
    // Slightly early, so the interval is an upper bound; random, so instances do not beat in step.
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
    this.lose(...before.filter((_, index) => renewed[index]?.word === 'other'));
    const asked = [...renewed];
    const surplus = this.held.size - this.share();
    if (surplus > 0) {
      await this.letGo(
        [...this.held.values()].slice(-surplus).filter((partition) => this.terms.mayLeave(partition)),
      );
    } else {
      asked.push(...(await this.takeFree(-surplus)));
    }
    return {
      failed: asked.filter(({ word }) => word === undefined).length + (announced.nowMs === undefined ? 1 : 0),
      nowMs: announced.nowMs,
      nextLapseAt: Math.min(announced.nextLapseAt, ...asked.map(({ lapsesAt }) => lapsesAt)),
    };
  }

  /** Drops partitions whose leases lapsed or passed to another instance. */
  lose(...partitions: readonly P[]): void {
    const lost = partitions.filter((partition) => this.held.get(partition.number) === partition);
    for (const partition of lost) {
      this.held.delete(partition.number);
      this.terms.changed('lost', partition);
    }
    if (lost.length > 0) {
      this.logger.warn(
        { work: this.terms.work, partitions: lost.map(({ code }) => code) },
        'lost the leases of partitions',
      );
    }
  }

  /** Gives up everything, so that other instances need not wait for the leases to expire. Never rejects. */
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
    const { instancesKey, reportsKey, leaseMs } = this.terms;
    try {
      const { nowMs, alive, place, nextLapseInMs } = await this.redis.scripts.call(
        'lease_announce',
        { instances: instancesKey, reports: reportsKey },
        { instance: this.instance, leaseMs, report },
      );
      this.alive = alive;
      this.place = place;
      this.announcements.succeeded();
      return { nowMs, nextLapseAt: performance.now() + (nextLapseInMs ?? Number.POSITIVE_INFINITY) };
    } catch (error) {
      // It keeps working on what it holds: in a cluster, perhaps only the node of the announcements is unreachable.
      this.terms.announcementFailed();
      this.announcements.failed(error);
      return { nowMs: undefined, nextLapseAt: Number.POSITIVE_INFINITY };
    }
  }

  /** Sends all requests without waiting for answers in between, so an outage delays all no longer than one. */
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

  /** Takes or renews one lease. Logs when an error starts and ends, and counts each one. */
  private async ask(partition: P): Promise<Asked> {
    try {
      const reply = await this.terms.ask(partition, this.instance);
      if (this.failing.delete(partition.number)) {
        this.logger.info({ partition: partition.code }, `a partition can be ${this.terms.work} again`);
      }
      if (reply.status !== 'HELD') {
        const lapsesInMs = reply.status === 'OTHER' ? reply.lapsesInMs : 0;
        return { word: 'other', lapsesAt: performance.now() + lapsesInMs };
      }
      if (reply.lease !== 'taken') {
        return { word: 'held', lapsesAt: Number.POSITIVE_INFINITY };
      }
      this.terms.changed('taken', partition);
      return { word: 'taken', lapsesAt: Number.POSITIVE_INFINITY };
    } catch (error) {
      // The connection logs outages. Errors of one partition are logged here.
      if (!(error instanceof StoreUnavailable) && !this.failing.has(partition.number)) {
        this.failing.add(partition.number);
        this.logger.error(
          { err: error, partition: partition.code },
          `a partition cannot be ${this.terms.work}; the others are not affected`,
        );
      }
      return { word: undefined, lapsesAt: Number.POSITIVE_INFINITY };
    }
  }

  /** Takes free partitions, at most as many as wanted at a time. Each instance starts its search at a different partition. */
  private async takeFree(wanted: number): Promise<Asked[]> {
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

  /** Leases that cannot be deleted expire by themselves. */
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
