import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { StoreClient } from './store.js';

/**
 * Creates a directory for the data of a Redis that a test kills, and returns its path. With `everysec`, Redis
 * writes its log to the kernel before it replies, except while a flush to the disk is in progress. To test
 * that promise, the directory is in memory, where a flush takes no time.
 */
export function makeLogFolder(fsync: string, prefix: string, parent?: string): string {
  const inMemory = fsync === 'everysec' ? process.env['TEST_MEMORY_FOLDER'] : undefined;
  return mkdtempSync(join(parent ?? inMemory ?? tmpdir(), prefix));
}

/**
 * Called before such a Redis is killed. A busy machine may draw out a flush in memory, too; without flushes, Redis
 * writes to the kernel before each reply. It has its own setting again when it is restarted.
 */
export async function endFlushes(fsync: string, redis: StoreClient): Promise<void> {
  if (fsync === 'everysec') {
    await redis.config('SET', 'appendfsync', 'no');
  }
}
