import { ReplyError as AnyReplyError } from 'ioredis';
import { StoreUnavailable } from './errors.js';
import type { Runnable } from './script-source.js';
import type { Arguments, Reply } from './script-call.js';

/** ioredis does not declare its type. */
const ReplyError = AnyReplyError as new (message: string) => Error;

/** The format of one call's text: see lua/lib/group.lua. */
const FAILED = '\u001e';
const SEPARATOR = '\u001f';
/** The hash tag that a key begins with, as in `{p2a}`. */
const TAG_LENGTH = 5;

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
  waiting: WaitingCall[];
  isRunning: boolean;
}

/** The keys and arguments of a run with these calls. */
export function groupOf(calls: readonly GroupedCall[]): { keys: Arguments; args: Arguments } {
  return {
    keys: calls.flatMap(({ keys }) => keys),
    args: [...calls.flatMap(({ args }) => args), ...calls.map(({ args }) => args.length), calls.length],
  };
}

/** The reply of one call. The run may have ended before a call; such a call has no text. */
export function replyOf(text: string): Reply | Error {
  return text.startsWith(FAILED) ? new ReplyError(text.slice(FAILED.length)) : text.split(SEPARATOR);
}

/**
 * Group commit: while a run of a script is in flight in a partition, further calls of it wait and share the next run. A single call does
 * not wait. Each call gets its own reply or error; see lua/lib/group.lua.
 */
export class GroupedCalls {
  private readonly queues = new Map<string, Queue>();

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
    const name = script.functionName + String(keys[0]).slice(0, TAG_LENGTH);
    let queue = this.queues.get(name);
    if (queue === undefined) {
      queue = { waiting: [], isRunning: false };
      this.queues.set(name, queue);
    }
    const { waiting, isRunning } = queue;
    const since = performance.now();
    const reply = new Promise<Reply>((resolve, reject) =>
      waiting.push({ keys, args, since, resolve, reject }),
    );
    if (!isRunning) {
      void this.drain(script, queue);
    }
    return reply;
  }

  /** Never rejects. */
  private async drain(script: Runnable, queue: Queue): Promise<void> {
    queue.isRunning = true;
    while (this.hasWaiting(queue)) {
      const calls = queue.waiting.splice(0, script.header.group);
      try {
        const { keys, args } = groupOf(calls);
        const texts = await this.send(script, keys, args);
        // A run may end before its last call.
        queue.waiting.unshift(...calls.slice(texts.length));
        this.ran(script, texts.length);
        texts.forEach((text, index) => settle(calls[index] as WaitingCall, replyOf(text)));
      } catch (error) {
        // While Redis is unreachable, silent or full, waiting calls would fail one run after the other.
        const waiting = error instanceof StoreUnavailable ? queue.waiting.splice(0) : [];
        for (const { reject } of [...calls, ...waiting]) {
          reject(error);
        }
      }
    }
    queue.isRunning = false;
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
    reject(reply);
  } else {
    resolve(reply);
  }
}
