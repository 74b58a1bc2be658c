import { afterAll, beforeAll } from '@jest/globals';
import { Redis } from 'ioredis';
import { LedgerClient } from './ledger-client.js';
import { sharedStoreUrl } from './store.js';

/**
 * Connects before the tests of a file and disconnects after them. Returns a function that makes a fresh
 * partition and tenant.
 */
export function useLedger(): () => Promise<LedgerClient> {
  let redis: Redis | undefined;
  beforeAll(() => {
    redis = new Redis(sharedStoreUrl());
  });
  afterAll(async () => {
    await redis?.quit();
  });
  return () => LedgerClient.make(redis as Redis);
}

/** Several separate connections, as several instances would have. */
export function useConnections(count: number): () => Redis[] {
  let connections: Redis[] = [];
  beforeAll(() => {
    connections = Array.from({ length: count }, () => new Redis(sharedStoreUrl()));
  });
  afterAll(async () => {
    await Promise.all(connections.map((connection) => connection.quit()));
  });
  return () => connections;
}
