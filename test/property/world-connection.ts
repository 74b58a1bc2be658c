import type { LedgerEvent } from '../support/ledger-state.js';
import type { WorldLedger } from './world-ledger.js';
import type { Actor } from './world-time.js';

type Argument = string | number | Buffer;

/** What the play does with the reply of a command as soon as Redis has run it, and with the events that it told. */
export type Judge = (
  ledger: WorldLedger,
  reply: string[],
  fresh: readonly LedgerEvent[],
  now: number,
) => void;

/** One command on its way to Redis. */
export interface Command {
  readonly name: string;
  readonly args: readonly Argument[];
  readonly judge: Judge | undefined;
  /** Gives the caller its reply, or an error. */
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

/** As ioredis words them. */
const CLOSED = 'Connection is closed.';
const TIMED_OUT = 'Command timed out';

/**
 * What an actor takes for its connection to Redis. Commands wait here until the play runs the first one, and replies until the play delivers
 * them. Like a real connection, it keeps the order of both.
 */
export class Connection {
  readonly isCluster = false;
  readonly status = 'ready';
  /** Commands that are not at Redis yet. */
  waiting: Command[] = [];
  /** Replies that are not at the caller yet. */
  private readonly replies: Reply[] = [];
  /** For commands that are sent from now on. */
  judge: Judge | undefined = undefined;

  private constructor(readonly actor: Actor) {}

  /** Every method of a client that is not named here becomes a command. */
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

  /** Redis has run a command of this connection. */
  reply(to: Command, error: Error | undefined, reply?: unknown): void {
    this.replies.push({ to, error, reply });
  }

  /** Gives the caller the first reply. */
  deliver(): void {
    const first = this.replies.shift();
    first?.to.answer(first.error, first.reply);
  }

  /** Fails everything that is under way. */
  break(): void {
    const lost = [...this.replies.splice(0).map(({ to }) => to), ...this.waiting.splice(0)];
    lost.forEach(({ answer }) => answer(new Error(CLOSED)));
  }

  /** The caller of the first command waits no longer. Redis may still run it. */
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
