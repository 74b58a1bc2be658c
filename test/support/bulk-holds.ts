import { type SubjectLevels, subjectText } from '../../src/ledger/scopes.js';
import { idempotencyKey, reservationIndexKey, reservationKey, tenantKey } from '../../src/redis/keyspace.js';
import { ScriptRegistry } from '../../src/redis/scripts.js';
import { IDEMPOTENCY_TTL_MS, randomText, RETENTION_MS, TRACE } from './ledger-client.js';
import type { StoreClient } from './store.js';

const PIPELINED = 500;

export interface BulkHold {
  readonly subject?: SubjectLevels;
  readonly amount?: number | bigint;
}

/**
 * Creates many holds of a tenant and returns their ids. It calls the script directly and pipelines the calls,
 * because the same number of requests would take minutes.
 */
export async function makeHolds(
  redis: StoreClient,
  tag: string,
  tenant: string,
  holds: readonly BulkHold[],
): Promise<string[]> {
  const scripts = new ScriptRegistry(redis);
  const ids: string[] = [];
  for (let first = 0; first < holds.length; first += PIPELINED) {
    const replies = await Promise.all(
      holds.slice(first, first + PIPELINED).map(({ subject = {}, amount = 1 }) => {
        const id = `rsv_${tag.slice(2, 4)}${randomText(16)}`;
        const key = randomText(12);
        ids.push(id);
        return scripts.run(
          'reserve',
          [reservationKey(tag, id), idempotencyKey.reserve(tag, tenant, key), tenantKey(tag, tenant)],
          [
            randomText(22),
            subjectText(subject, tenant, 'TOKENS'),
            String(amount),
            '|600000||5000',
            `${IDEMPOTENCY_TTL_MS}|${RETENTION_MS}|0|0|0`,
            'key_bulk',
            'req_bulk',
            TRACE,
            'side_effect||||',
            '',
            '',
            'ak',
            'llm',
            'an',
            'gpt',
            'ik',
            key,
          ],
        );
      }),
    );
    const failed = replies.find((reply) => reply[0] !== 'ALLOW');
    if (failed !== undefined) {
      throw new Error(`a hold was not made: ${String(failed)}`);
    }
  }
  return ids;
}

/** Backdates the creation of holds, in the record and in the index. */
export async function setCreation(
  redis: StoreClient,
  tag: string,
  tenant: string,
  times: ReadonlyMap<string, number>,
): Promise<void> {
  const pipeline = redis.pipeline();
  for (const [id, time] of times) {
    pipeline.hset(reservationKey(tag, id), 'ca', time).zadd(reservationIndexKey(tag, tenant), time, id);
  }
  await pipeline.exec();
}
