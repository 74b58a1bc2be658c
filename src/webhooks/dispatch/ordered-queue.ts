import { ok } from 'node:assert/strict';
import type { Delivery } from './delivery.js';

/** Most deliveries of a queue that are read at a time, a few kilobytes each. */
const PAGE = 50;
/** While fewer than this are ready, the next page is read. At 2,000 attempts a second they last for 50 ms, which is several round trips. */
const READ_AHEAD = 2 * PAGE;
/** What the deliveries of all queues may take that stay in memory from their queueing on, or are read ahead. */
const READY_BYTES = 24 * 1024 * 1024;
/**
 * A queue may take at most one part in this many of what is free of that: about 1,000 deliveries when it is alone. So queues that get long
 * because their endpoints hang always leave some to the others.
 */
const PART_OF_FREE = 16;
/** What a delivery takes beside the event's bytes, about. */
const DELIVERY_BYTES = 1024;
/**
 * Deliveries of a queue that may be in Redis besides those in memory: some are just being attempted or settled, and few are a replay's. If
 * there are more, a replay has pushed many, which come first. QUEUE_SEARCHED of lua/webhooks/lib/delivery_record.lua is larger by UNSETTLED at least.
 */
const UNKNOWN_IN_QUEUE = 64;

/** What the ready deliveries of all queues take. */
export interface ReadyMemory {
  bytes: number;
}

/** The first `length` deliveries of a queue in Redis, without those that are skipped. */
export interface Page {
  readonly length: number;
  readonly deliveries: readonly Delivery[];
}

/**
 * Reads from the head of a queue in Redis.
 * @throws StoreUnavailable
 */
export type ReadHead = (count: number, skipped: ReadonlySet<string>) => Promise<Page>;

/** A page that is being read. */
interface Reading {
  /** Whether a delivery was pushed meanwhile that the page may not contain. */
  hasMissed: boolean;
  done: Promise<void>;
}

/**
 * What a queue's loop does:
 * - `reading`: nothing is ready, nothing is under way, and the head of the queue is being read;
 * - `attempting`: one delivery after the other, while outcomes are stored and the next page is read;
 * - `settling`: nothing starts until every outcome is stored or could not be;
 * - `pausing` after an error: the queue in Redis counts, and nothing is known of it;
 * - `ended`: a new queue takes the name.
 */
type Mode = 'new' | 'reading' | 'attempting' | 'settling' | 'pausing' | 'ended';

const ENTERED_FROM: Readonly<Record<Mode, readonly Mode[]>> = {
  new: [],
  reading: ['new', 'settling', 'pausing'],
  attempting: ['new', 'reading', 'settling'],
  settling: ['attempting'],
  pausing: ['reading', 'settling'],
  ended: ['new', 'settling', 'pausing'],
};

/**
 * The deliveries of one tenant's events to one subscription that wait in Redis for their first attempt, and what this process knows of
 * them. Redis' list is what counts.
 */
export class OrderedQueue {
  /** Its length in Redis, as last known. */
  left = 0;
  /** When its first delivery was made, by Redis' clock. */
  oldestMs = Number.POSITIVE_INFINITY;
  /** Whether its endpoint was slow the last time. */
  isSlow = false;
  /** First attempts that failed since the last one that succeeded. */
  failuresInRow = 0;
  private mode: Mode = 'new';
  /** Those that are attempted next: none is known, the first ones are, or all are. Nothing is ready if none is known. */
  private known: 'none' | 'first' | 'all';
  private ready: Delivery[] = [];
  private readyBytes = 0;
  /** The partition's term in which these were read or queued. */
  private term: number;
  private reading: Reading | undefined;
  /** How many the last request carried. As many may be under way, and as many unsettled. */
  private inRequest = 1;
  /** How many to read at a time. Starts at one and doubles, so a queue that makes no progress costs one read per try, not a whole page. */
  private pageSize = 1;

  /**
   * @param name `<subscription_id>:<tenant>`
   * @param how  whether it had deliveries before this process pushed one
   */
  constructor(
    private readonly partition: { readonly term: number },
    readonly name: string,
    private readonly memory: ReadyMemory,
    private readonly readHead: ReadHead,
    how: 'found' | 'empty',
  ) {
    this.term = partition.term;
    this.known = how === 'found' ? 'none' : 'all';
  }

  enter(mode: Mode): void {
    ok(ENTERED_FROM[mode].includes(this.mode), `a queue cannot be ${mode} after it was ${this.mode}`);
    this.mode = mode;
    if (mode === 'settling') {
      // Nobody waits for what is still being read.
      this.reading = undefined;
    }
  }

  get isEmpty(): boolean {
    return !this.hasReady && this.known === 'all' && this.left <= 0;
  }

  get hasReady(): boolean {
    return this.ready.length > 0;
  }

  /** Whether Redis has more behind those that are ready. */
  get goesOn(): boolean {
    return this.known === 'first';
  }

  /** Whether to read the next page before it is needed. */
  get isRunningLow(): boolean {
    return this.goesOn && this.ready.length < READ_AHEAD && this.hasRoom;
  }

  /**
   * A delivery was just pushed. It is remembered if it is the next one, and there is room.
   * @param length of the queue then
   */
  push(delivery: Delivery, length: number): void {
    ok(this.mode !== 'ended');
    this.forgetEarlierTerm();
    this.left += 1;
    const isBehindOthers = length > this.ready.length + UNKNOWN_IN_QUEUE + 2 * (this.inRequest - 1);
    if (this.known === 'all' && !isBehindOthers && this.hasRoom) {
      this.remember(delivery);
      return;
    }
    this.known = this.known === 'all' ? 'first' : this.known;
    if (this.reading !== undefined) {
      this.reading.hasMissed = true;
    }
  }

  /** @returns the next delivery; undefined if none is known, or another instance may have held the partition since */
  take(): Delivery | undefined {
    ok(this.mode === 'attempting');
    this.forgetEarlierTerm();
    const delivery = this.ready.shift();
    this.count(delivery === undefined ? 0 : -bytesOf(delivery));
    this.inRequest = 1;
    return delivery;
  }

  /** Takes the deliveries that go with the one just taken, for as long as they fit. */
  takeWhile(fits: (delivery: Delivery) => boolean): Delivery[] {
    ok(this.mode === 'attempting');
    this.forgetEarlierTerm();
    const end = this.ready.findIndex((delivery) => !fits(delivery));
    const taken = this.ready.splice(0, end < 0 ? this.ready.length : end);
    taken.forEach((delivery) => this.count(-bytesOf(delivery)));
    this.inRequest += taken.length;
    return taken;
  }

  /**
   * Reads the next page behind what is ready, or waits for the one that is being read.
   * @param underWay refs that were taken and have not left the queue, for all that is known
   * @throws StoreUnavailable
   */
  read(underWay: Iterable<string>): Promise<void> {
    ok(this.mode === 'reading' ? !this.hasReady : this.mode === 'attempting');
    if (this.reading === undefined) {
      const reading = { hasMissed: false, done: Promise.resolve() };
      this.reading = reading;
      // So that what is pushed from now on is not remembered before what the page contains.
      this.known = 'first';
      reading.done = this.readPage(reading, new Set([...underWay, ...this.ready.map(({ ref }) => ref)]));
      // Whoever waits for the page gets the error.
      reading.done.catch(() => undefined);
    }
    return this.reading.done;
  }

  forgetEarlierTerm(): void {
    if (this.term !== this.partition.term) {
      this.forget();
    }
  }

  /** Has the queue read from Redis again, because what is known of it may be wrong. */
  forget(): void {
    this.count(-this.readyBytes);
    this.ready = [];
    this.known = 'none';
    this.reading = undefined;
    this.term = this.partition.term;
  }

  /** After an error. */
  beginAnew(): void {
    this.forget();
    this.pageSize = 1;
  }

  private async readPage(reading: Reading, skipped: ReadonlySet<string>): Promise<void> {
    const count = this.pageSize + skipped.size;
    const { length, deliveries } = await this.readHead(count, skipped);
    if (this.reading !== reading) {
      // The queue was forgotten meanwhile.
      return;
    }
    this.reading = undefined;
    deliveries.forEach((delivery) => this.remember(delivery));
    this.left = length === 0 ? 0 : Math.max(this.left, length);
    this.known = reading.hasMissed || length === count ? 'first' : 'all';
    this.pageSize = Math.min(this.pageSize * 2, PAGE);
  }

  private get hasRoom(): boolean {
    return this.readyBytes < (READY_BYTES - this.memory.bytes) / PART_OF_FREE;
  }

  private remember(delivery: Delivery): void {
    this.ready.push(delivery);
    this.count(bytesOf(delivery));
  }

  private count(bytes: number): void {
    this.readyBytes += bytes;
    this.memory.bytes += bytes;
  }
}

function bytesOf({ event }: Delivery): number {
  return DELIVERY_BYTES + (event?.body.length ?? 0);
}
