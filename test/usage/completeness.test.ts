import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import {
  journalPlacesKey,
  partitionCode,
  partitionOfTenant,
  RedisService,
  tagOf,
} from '../../src/redis/index.js';
import { expectStatus, Holdfast } from '../support/holdfast.js';
import { startStore, type Store } from '../support/store.js';

/* Nothing archives here, so the places of partitions stay as the test sets them. */

const TENANT = 'acme';
let store: Store;
let holdfast: Holdfast;

beforeAll(async () => {
  store = await startStore();
  holdfast = await Holdfast.start({ REDIS_URL: store.url, ARCHIVE_DIR: join(tmpdir(), 'no-archive-yet') });
});
afterAll(async () => {
  await holdfast.stop();
  await store.stop();
});

async function completeThroughMs(parameters = ''): Promise<unknown> {
  const answer = await holdfast.admin('GET', `/ops/usage?${parameters}`);
  return expectStatus(answer, 200).complete_through_ms;
}

test('a report is complete up to where the last partition is, and one of a tenant up to where its own is', async () => {
  const { client, partitions } = holdfast.app.get(RedisService);
  const own = partitionOfTenant(TENANT, partitions);
  const place = (partition: number, through: number): Promise<unknown> =>
    client.hset(journalPlacesKey(tagOf(partitionCode(partition))), 'cursor', '0-0', 'through', through);
  expect(await completeThroughMs()).toBe(0);
  expect(await completeThroughMs(`tenant_id=${TENANT}`)).toBe(0);
  await place(own, 2000);
  expect(await completeThroughMs(`tenant_id=${TENANT}`)).toBe(2000);
  // A partition that is not archived yet may have charges.
  expect(await completeThroughMs()).toBe(0);
  for (let partition = 0; partition < partitions; partition += 1) {
    await place(partition, partition === own ? 2000 : 1000);
  }
  expect(await completeThroughMs()).toBe(1000);
  expect(await completeThroughMs(`tenant_id=${TENANT}`)).toBe(2000);
});

test('an instance without an archive says so', async () => {
  const other = await Holdfast.start({ REDIS_URL: store.url });
  try {
    const { status, body } = await other.admin('GET', '/ops/usage');
    expect([status, body.details, body.message]).toEqual([
      501,
      { reason: 'no_archive' },
      expect.stringContaining('ARCHIVE_DIR'),
    ]);
  } finally {
    await other.stop();
  }
});
