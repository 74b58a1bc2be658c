import type { StoreClient } from './store.js';

/** The values of an idempotency record: the fingerprint, then the parts of the outcome. */
export async function recordedValues(redis: StoreClient, key: string): Promise<unknown[]> {
  const code = "return cjson.encode({ cmsgpack.unpack(redis.call('GET', KEYS[1])) })";
  return JSON.parse(String(await redis.eval(code, 1, key))) as unknown[];
}

/** Overwrites the values of an existing idempotency record. */
export async function replaceRecord(redis: StoreClient, key: string, values: unknown[]): Promise<void> {
  const code =
    "return redis.call('SET', KEYS[1], cmsgpack.pack(unpack(cjson.decode(ARGV[1]))), 'XX', 'KEEPTTL')";
  await redis.eval(code, 1, key, JSON.stringify(values));
}
