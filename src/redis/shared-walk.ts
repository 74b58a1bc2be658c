import { AsyncLocalStorage } from 'node:async_hooks';
import type { Queries } from './queries.js';

/** One of the queries that a walk serves. */
interface Party<Args extends unknown[]> {
  readonly visit: (...args: Args) => void;
  readonly signal: AbortSignal | undefined;
  /** What its `visit` threw. The others are not affected. */
  failure: { readonly error: unknown } | undefined;
}

interface Walk<Args extends unknown[]> {
  readonly parties: Party<Args>[];
  readonly end: Promise<void>;
}

/**
 * A walk over records of the whole deployment, which serves all queries that asked for one before it began: a page that opens with several
 * filtered lists costs two walks, not one for each. A query never joins a walk that has begun, which may have passed what its client
 * has just changed. A walk ends early when all its clients have disconnected.
 */
export class SharedWalk<Args extends unknown[]> {
  private next: Walk<Args> | undefined;
  private last: Promise<void> = Promise.resolve();

  constructor(
    private readonly queries: Queries,
    private readonly walk: (visit: (...args: Args) => void) => Promise<void>,
  ) {}

  /** @throws StoreUnavailable, QueryAbandoned, and what `visit` throws */
  async join(visit: (...args: Args) => void): Promise<void> {
    const { signal } = this.queries;
    const party: Party<Args> = { visit: AsyncLocalStorage.bind(visit), signal, failure: undefined };
    this.next ??= this.prepare();
    this.next.parties.push(party);
    await this.queries.whileWanted(this.next.end);
    if (party.failure !== undefined) {
      throw party.failure.error;
    }
  }

  private prepare(): Walk<Args> {
    const parties: Party<Args>[] = [];
    const end = this.last.then(() => {
      this.next = undefined;
      return this.start(parties);
    });
    this.last = end.catch(() => undefined);
    return { parties, end };
  }

  private start(parties: readonly Party<Args>[]): Promise<void> {
    const unwanted = new AbortController();
    const check = (): void => {
      if (parties.every(({ signal }) => signal?.aborted === true)) {
        unwanted.abort();
      }
    };
    parties.forEach(({ signal }) => signal?.addEventListener('abort', check, { once: true }));
    check();
    return this.queries.onBehalf(unwanted.signal, () =>
      this.walk((...args) => parties.forEach((party) => offer(party, args))),
    );
  }
}

function offer<Args extends unknown[]>(party: Party<Args>, args: Args): void {
  if (party.failure !== undefined || party.signal?.aborted === true) {
    return;
  }
  try {
    party.visit(...args);
  } catch (error) {
    party.failure = { error };
  }
}
