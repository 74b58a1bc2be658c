import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { journalPlacesKey, partitionOfTenant, RedisService, tagOfPartition } from '../../src/redis/index.js';
import { type Charge, publishCharges } from '../support/charge-files.js';
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
    client.hset(journalPlacesKey(tagOfPartition(partition)), 'cursor', '0-0', 'through', through);
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

test('rows of published days that a restore has superseded are in sums of their own', async () => {
  const root = mkdtempSync(join(tmpdir(), 'superseded-'));
  const other = await Holdfast.start({ REDIS_URL: store.url, ARCHIVE_DIR: root });
  const { deployment } = other.app.get(RedisService);
  const noon = Date.parse('2026-01-02T12:00:00Z');
  const rowOf = (seconds: number, sequence: number, charged: number, epoch?: number): Charge => ({
    recorded_at: noon + seconds * 1000,
    entry: `${noon + seconds * 1000}-${sequence}`,
    charged,
    ...(epoch !== undefined && { epoch }),
  });
  await publishCharges(
    root,
    [
      // A row without an epoch is of 0.7.
      rowOf(0, 5, 1),
      rowOf(1, 9, 2, 1),
      rowOf(1, 10, 40, 1),
      rowOf(2, 0, 80),
      // Of another partition, which was not put back so far.
      { ...rowOf(2, 0, 4, 1), partition: 1 },
      rowOf(3, 0, 8, 2),
    ],
    deployment.id,
  );
  const restored = { '00': `${noon + 1000}-9`, '01': `${noon + 9000}-0` };
  const epochs = [
    { deployment_id: deployment.id, began_ms: noon - 1000 },
    {
      deployment_id: deployment.id,
      began_ms: noon + 2500,
      restored_to: { charges: restored, events: {}, audit: {} },
    },
  ];
  writeFileSync(join(root, 'archive.json'), JSON.stringify({ id: 'made-up', epochs }));
  try {
    const report = await other.admin('GET', '/ops/usage?from=2026-01-01T00:00:00Z&to=2026-02-01T00:00:00Z');
    expect(expectStatus(report, 200)).toMatchObject({
      totals: [{ charged: 15, count: 4, superseded: 120, superseded_count: 2 }],
      epochs_ms: [noon - 1000, noon + 2500],
    });
  } finally {
    await other.stop();
    rmSync(root, { recursive: true });
  }
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
