import { Command, Redis } from 'ioredis';

/** Time in which the process stands still counts as one part at most. */
const PARTS = 8;

/**
 * A timer for a limit on what another process does. A process that the machine lets stand still must not take its own time for that of
 * the other one, so such time counts as an eighth of the limit at most. After it, timers run before sockets are read, so what has
 * arrived meanwhile is read before `exceeded` is called. The caller checks there whether it has what it waited for: `clearTimeout` on
 * the timer no longer helps then.
 */
export function startLimit(ms: number, exceeded: () => void): NodeJS.Timeout {
  let left = PARTS;
  const timer = setTimeout(() => {
    left -= 1;
    if (left > 0) {
      timer.refresh();
    } else {
      setImmediate(exceeded);
    }
  }, ms / PARTS);
  return timer;
}

/** What the limits need of a command and a connection of ioredis, some of which it declares as private. */
interface LimitedCommand extends Pick<Command, 'isSettled' | 'reject'> {
  _commandTimeoutTimer?: NodeJS.Timeout;
  setTimeout(ms: number): void;
}

interface LimitedConnection extends Pick<Redis, 'stream' | 'commandQueue'> {
  readonly options: { readonly socketTimeout: number };
  socketTimeoutTimer: NodeJS.Timeout | undefined;
  setSocketTimeout(): void;
}

/** `commandTimeout`. ioredis clears the timer when the command is settled. */
function limitCommand(this: LimitedCommand, ms: number): void {
  this._commandTimeoutTimer ??= startLimit(ms, () => {
    if (!this.isSettled) {
      this.reject(new Error('Command timed out'));
    }
  });
}

/** `socketTimeout`. ioredis calls it when a command is sent and no timer is set, and clears the timer when the connection closes. */
function limitSilence(this: LimitedConnection): void {
  const { stream } = this;
  const { socketTimeout } = this.options;
  const timer = startLimit(socketTimeout, () => {
    if (this.socketTimeoutTimer === timer) {
      this.socketTimeoutTimer = undefined;
      stream.destroy(new Error(`Socket timeout. Redis has sent nothing for ${socketTimeout} ms.`));
    }
  });
  this.socketTimeoutTimer = timer;
  // Runs after the listener of ioredis that takes the answered commands out of the queue.
  stream.once('data', () => {
    clearTimeout(this.socketTimeoutTimer);
    this.socketTimeoutTimer = undefined;
    if (this.commandQueue.length > 0) {
      this.setSocketTimeout();
    }
  });
}

/**
 * Replaces both limits of ioredis in this process. There, they are plain timers: after a pause, they fail commands whose replies wait
 * in the socket. No option changes that, and a subclass would not do: ioredis itself makes the connections of a cluster and those to
 * Sentinels, and the commands that wait for a connecting node are in a private queue. Only the prototypes reach all of them.
 *
 * This relies on names of ioredis 6.0.0 that it declares as private. If one of them is missing, the service does not start. What they do
 * is held by test/redis/answer-limits.test.ts: that a limit is used at all and counts standstills as a part (single Redis and cluster),
 * that a timer is cleared when its command is answered and when its connection closes.
 */
export function replaceAnswerLimits(): void {
  replaceMethod(Command.prototype, 'setTimeout', limitCommand);
  replaceMethod(Redis.prototype, 'setSocketTimeout', limitSilence);
}

function replaceMethod(prototype: object, name: string, method: unknown): void {
  if (typeof Reflect.get(prototype, name) !== 'function') {
    throw new Error(`this version of ioredis has no ${name}, so answers would have other limits than told`);
  }
  Reflect.set(prototype, name, method);
}
