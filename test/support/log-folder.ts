import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * Makes a directory for the data of a Redis that a test kills, and returns its name. With `everysec`, Redis gives its log to the kernel
 * before it replies, except while a flush to the disk is in progress. So that promise is tested in memory, where a flush takes no time.
 */
export function makeLogFolder(fsync: string, prefix: string, parent?: string): string {
  const inMemory = fsync === 'everysec' ? process.env['TEST_MEMORY_FOLDER'] : undefined;
  return mkdtempSync(join(parent ?? inMemory ?? tmpdir(), prefix));
}
