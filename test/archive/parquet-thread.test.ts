import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { ParquetThread } from '../../src/archive/parquet-thread.js';
import { STREAM_COLUMNS } from '../../src/archive/stream-columns.js';

const thread = new ParquetThread();
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parquet-'));
});
afterAll(async () => {
  await thread.stop();
  await rm(folder, { recursive: true, force: true });
});

test.each(['rewrite', 'check'] as const)('the failure to %s a damaged file names the file', async (kind) => {
  // Long enough, and with the marks of a Parquet file, as after a crash of the disk's cache.
  const damaged = join(folder, `1-0_2-0-${kind}.parquet`);
  await writeFile(damaged, `PAR1${'x'.repeat(100)}PAR1`);
  const columns = STREAM_COLUMNS.charges;
  const task =
    kind === 'rewrite'
      ? thread.run({ kind, path: join(folder, 'day.parquet'), columns, inputs: [damaged], sortBy: [] })
      : thread.run({ kind, path: damaged, columns: columns.map(({ name }) => name) });
  await expect(task).rejects.toThrow(`${damaged} cannot be read: `);
});
