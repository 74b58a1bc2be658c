import { ReplyError as AnyReplyError } from 'ioredis';
import { StoreUnavailable, toStoreError } from './errors.js';
import type { Runnable } from './script-library.js';
import type { Argument, Arguments, Reply } from './script-call.js';

/** ioredis does not declare its type. */
const ReplyError = AnyReplyError as new (message: string) => Error;

/** The format of one call's text: see lua/lib/grouped.lua. */
const FAILED = '\u001e';
const SEPARATOR = '\u001f';
/** The hash tag that a key begins with, as in `{p2a}`. */
const TAG_LENGTH = 5;
/** In one partition and of one script. With several, Redis has the next one when it has finished the first. */
const RUNS_IN_FLIGHT = 4;
/**
 * With 64 calls in a run, a reserve at three scopes takes Redis 283,000 instructions instead of 310,000 with 16. But other partitions wait for a
 * run, so runs grow only while there is no other, and while they are so short that one of them may also reclaim 100 holds within 10 ms.
 */
const MOST_CALLS = 64;
const LONGEST_PLAIN_RUN_MS = 6;

export interface GroupedCall {
  readonly keys: Arguments;
  readonly args: Arguments;
}

interface WaitingCall extends GroupedCall {
  readonly since: number;
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: unknown) => void;
}

/** One script in one partition. */
interface Queue {
  readonly tag: string;
  waiting: WaitingCall[];
  inFlight: number;
  /** The most calls of the next run. */
  most: number;
  repliedAt: number;
  /** Whether runs start at the end of this turn of the event loop. */
  isStarting: boolean;
}

/** The keys and arguments of a run with these calls. `concat` copies whole arrays, which `flatMap` and spreads do not. */
export function groupOf(calls: readonly GroupedCall[]): { keys: Arguments; args: Arguments } {
  const none: Argument[] = [];
  return {
    keys: none.concat(...calls.map(({ keys }) => keys)),
    args: none.concat(
      ...calls.map(({ args }) => args),
      calls.map(({ args }) => args.length),
      calls.length,
    ),
  };
}

/** The reply of one call. The run may have ended before a call; such a call has no text. */
export function replyOf(text: string): Reply | Error {
  return text.startsWith(FAILED) ? new ReplyError(text.slice(FAILED.length)) : textsIn(text);
}

/** The texts of a reply that is part of another one. */
export function textsIn(text: string): Reply {
  return text.split(SEPARATOR);
}

/**
 * Group commit: calls of a script that come in the same turn of the event loop share a run. While four runs are in flight in a partition,
 * further calls wait and share the next one, at most as many as its header says, or 64 in a partition that is alone busy. A single call waits
 * only for the end of the turn. Each call gets its own reply or error; see
 * lua/lib/grouped.lua.
 */
export class GroupedCalls {
  private readonly queues = new Map<string, Queue>();
  /** The runs in flight by partition. */
  private readonly busy = new Map<string, number>();

  /**
   * @param send runs the script once, with keys and arguments of `groupOf`
   * @param ran called for each completed run, with its number of calls
   * @param waitMs how long a call may wait before it is sent
   */
  constructor(
    private readonly send: (script: Runnable, keys: Arguments, args: Arguments) => Promise<Reply>,
    private readonly ran: (script: Runnable, calls: number) => void,
    private readonly waitMs = Infinity,
  ) {}

  /** @throws StoreUnavailable if the call was not sent in time, and what `send` throws. */
  call(script: Runnable, keys: Arguments, args: Arguments): Promise<Reply> {
    const tag = String(keys[0]).slice(0, TAG_LENGTH);
    const name = script.functionName + tag;
    let queue = this.queues.get(name);
    if (queue === undefined) {
      const most = script.group ?? 1;
      queue = { tag, waiting: [], inFlight: 0, isStarting: false, most, repliedAt: 0 };
      this.queues.set(name, queue);
    }
    const { waiting } = queue;
    const since = performance.now();
    const reply = new Promise<Reply>((resolve, reject) =>
      waiting.push({ keys, args, since, resolve, reject }),
    );
    this.startSoon(script, queue);
    return reply;
  }

  /** The turn in which one request is read often reads others, too. */
  private startSoon(script: Runnable, queue: Queue): void {
    if (queue.isStarting || queue.inFlight === RUNS_IN_FLIGHT || queue.waiting.length === 0) {
      return;
    }
    queue.isStarting = true;
    setImmediate(() => {
      queue.isStarting = false;
      while (queue.inFlight < RUNS_IN_FLIGHT && this.hasWaiting(queue)) {
        this.countRun(queue, 1);
        void this.run(script, queue, queue.waiting.splice(0, queue.most));
      }
    });
  }

  /** Never rejects. */
  private async run(script: Runnable, queue: Queue, calls: readonly WaitingCall[]): Promise<void> {
    const sentAt = performance.now();
    try {
      const { keys, args } = groupOf(calls);
      const texts = await this.send(script, keys, args);
      // A run may end before its last call, and so may another one that is in flight.
      const rest = calls.slice(texts.length);
      if (rest.length > 0) {
        queue.waiting = [...rest, ...queue.waiting].sort((a, b) => a.since - b.since);
      }
      this.ran(script, texts.length);
      this.adapt(script, queue, texts.length, sentAt);
      texts.forEach((text, index) => settle(calls[index] as WaitingCall, replyOf(text)));
    } catch (error) {
      // While Redis is unreachable, silent or full, waiting calls would fail one run after the other.
      const waiting = error instanceof StoreUnavailable ? queue.waiting.splice(0) : [];
      for (const { reject } of [...calls, ...waiting]) {
        reject(error);
      }
    }
    this.countRun(queue, -1);
    this.startSoon(script, queue);
  }

  private countRun(queue: Queue, change: number): void {
    queue.inFlight += change;
    const runs = (this.busy.get(queue.tag) ?? 0) + change;
    if (runs === 0) {
      this.busy.delete(queue.tag);
    } else {
      this.busy.set(queue.tag, runs);
    }
  }

  /** A run takes at most the time since it was sent, or since the one before it was back. */
  private adapt({ group = 1 }: Runnable, queue: Queue, calls: number, sentAt: number): void {
    const now = performance.now();
    const tookMs = now - Math.max(sentAt, queue.repliedAt);
    queue.repliedAt = now;
    if (this.busy.size > 1 || tookMs > LONGEST_PLAIN_RUN_MS) {
      queue.most = group;
    } else if (calls === queue.most && 2 * tookMs <= LONGEST_PLAIN_RUN_MS) {
      queue.most = Math.min(2 * queue.most, MOST_CALLS);
    }
  }

  /** Rejects the calls that have waited too long. @returns whether others are waiting */
  private hasWaiting(queue: Queue): boolean {
    const latest = performance.now() - this.waitMs;
    while (queue.waiting[0] !== undefined && queue.waiting[0].since < latest) {
      queue.waiting.shift()?.reject(new StoreUnavailable('timeout'));
    }
    return queue.waiting.length > 0;
  }
}

function settle({ resolve, reject }: WaitingCall, reply: Reply | Error): void {
  if (reply instanceof Error) {
    reject(toStoreError(reply));
  } else {
    resolve(reply);
  }
}
