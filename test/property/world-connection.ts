import type { LedgerEvent } from '../support/ledger-state.js';
import type { WorldLedger } from './world-ledger.js';
import type { Actor } from './world-time.js';

type Argument = string | number | Buffer;

/**
 * What the play does with the replies of a command's calls as soon as Redis has run it, and with the events
 * that the command emitted. `keys` are those of each call that was made.
 */
export type Judge = (
  ledger: WorldLedger,
  replies: readonly string[][],
  fresh: readonly LedgerEvent[],
  now: number,
  keys: readonly (readonly string[])[],
) => void;

/** A command on its way to Redis. */
export interface Command {
  readonly name: string;
  readonly args: readonly Argument[];
  readonly judge: Judge | undefined;
  /** Passes the reply or an error to the caller. */
  readonly answer: (error: Error | undefined, reply?: unknown) => void;
}

interface Reply {
  readonly to: Command;
  readonly error: Error | undefined;
  readonly reply: unknown;
}

interface Pipeline {
  fcall(...args: Argument[]): void;
  exec(): Promise<[Error | null, unknown][]>;
}

/** ioredis' wording. */
const CLOSED = 'Connection is closed.';
const TIMED_OUT = 'Command timed out';

/**
 * The connection to Redis as an actor sees it. Commands wait here until the play runs the first one, and
 * replies wait until the play delivers them. Both stay in order, as on a real connection.
 */
export class Connection {
  readonly isCluster = false;
  readonly status = 'ready';
  /** Commands that have not reached Redis yet. */
  waiting: Command[] = [];
  /** Replies that have not reached the caller yet. */
  private readonly replies: Reply[] = [];
  /** Applies to commands that are sent from now on. */
  judge: Judge | undefined = undefined;

  private constructor(readonly actor: Actor) {}

  /** Every client method that is not defined here becomes a command. */
  static of(actor: Actor): Connection {
    return new Proxy(new Connection(actor), {
      get: (connection, name, receiver) =>
        typeof name === 'symbol' || name === 'then' || Reflect.has(connection, name)
          ? Reflect.get(connection, name, receiver)
          : (...args: Argument[]) => connection.send(name, args),
    });
  }

  sendCommand({ name, args }: Pick<Command, 'name' | 'args'>): Promise<unknown> {
    return this.send(name, args);
  }

  pipeline(): Pipeline {
    const sent: Promise<[Error | null, unknown]>[] = [];
    return {
      fcall: (...args) =>
        void sent.push(
          this.send('fcall', args).then(
            (reply) => [null, reply] as [null, unknown],
            (error: Error) => [error, undefined] as [Error, undefined],
          ),
        ),
      exec: () => Promise.all(sent),
    };
  }

  async *sscanStream(key: string): AsyncGenerator<unknown> {
    yield await this.send('smembers', [key]);
  }

  get hasReply(): boolean {
    return this.replies.length > 0;
  }

  /** Takes the reply to a command of this connection that Redis has run. */
  reply(to: Command, error: Error | undefined, reply?: unknown): void {
    this.replies.push({ to, error, reply });
  }

  /** Passes the first reply to its caller. */
  deliver(): void {
    const first = this.replies.shift();
    first?.to.answer(first.error, first.reply);
  }

  /** Fails everything in flight. */
  break(): void {
    const lost = [...this.replies.splice(0).map(({ to }) => to), ...this.waiting.splice(0)];
    lost.forEach(({ answer }) => answer(new Error(CLOSED)));
  }

  /** Times out the first command for its caller. Redis may still run it. */
  timeOut(): Command | undefined {
    const command = this.waiting.shift();
    command?.answer(new Error(TIMED_OUT));
    return command;
  }

  private send(name: string, args: readonly Argument[]): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const { judge } = this;
      const answer = (error: Error | undefined, reply?: unknown): void =>
        error === undefined ? resolve(reply) : reject(error);
      if (this.actor.isAlive) {
        this.waiting.push({ name, args: args.flat(), judge, answer });
      }
    });
  }
}
