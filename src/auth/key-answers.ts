import { LRUCache } from 'lru-cache';

/** The maximum age of a cache entry, counted from before the look-up in Redis. Revocations are announced much sooner. */
const LIFETIME_MS = 1000;
const MAX_ENTRIES = 10_000;

/** What a look-up found: the owner of the key, and for how long the key is valid, or why it is not. */
export type Found<Owner extends object, Failure extends string> =
  { readonly owner: Owner; readonly expiresInMs: number } | Failure;

/**
 * The owners of keys by the hashes of their secrets: a bounded cache, and one look-up for all who ask for the same key at the same time.
 * Refusals are not cached, because a key that becomes valid must work at once, and guessed keys would evict valid ones.
 */
export class KeyAnswers<Owner extends object, Failure extends string> {
  private readonly cache = new LRUCache<string, Owner>({ max: MAX_ENTRIES, ttl: LIFETIME_MS });
  private readonly lookups = new Map<string, Promise<Owner | Failure>>();

  cached(secretHash: string): Owner | undefined {
    return this.cache.get(secretHash);
  }

  /** The answer of a look-up, which is only made if none is under way. */
  ask(secretHash: string, lookUp: () => Promise<Found<Owner, Failure>>): Promise<Owner | Failure> {
    const running = this.lookups.get(secretHash);
    if (running !== undefined) {
      return running;
    }
    // The reply of Redis may be as old as this.
    const start = performance.now();
    const answer: Promise<Owner | Failure> = lookUp()
      .then((found) => {
        if (typeof found === 'string') {
          return found;
        }
        if (this.lookups.get(secretHash) === answer) {
          const ttl = Math.max(1, Math.min(LIFETIME_MS, found.expiresInMs));
          this.cache.set(secretHash, found.owner, { start, ttl });
        }
        return found.owner;
      })
      .finally(() => {
        if (this.lookups.get(secretHash) === answer) {
          this.lookups.delete(secretHash);
        }
      });
    this.lookups.set(secretHash, answer);
    return answer;
  }

  /** Removes a key. The result of a look-up in progress is not cached. */
  forget(secretHash: string): void {
    this.cache.delete(secretHash);
    this.lookups.delete(secretHash);
  }
}
