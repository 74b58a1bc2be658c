import { randomBytes } from 'node:crypto';
import { rm, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { unfinishedIn } from './archive-folder.js';

/** In the paths that errors about a spill name. */
export const SPILL_PREFIX = '.spill-';
/** A query touches its spill every 10 s. */
const LEFT_BEHIND_MS = 300_000;

/** A folder for what a query cannot keep in memory. It is beside the archive, which is where a container can write, and no part of it. */
export const newSpill = (root: string): string =>
  join(root, `${SPILL_PREFIX}${randomBytes(6).toString('hex')}`);

/** Removes what queries have left behind that were killed together with the process that had asked for them. */
export async function removeSpillsLeftBehind(root: string, nowMs: number): Promise<void> {
  for (const path of await unfinishedIn(root)) {
    const isSpill = basename(path).startsWith(SPILL_PREFIX);
    // It may just have been removed by its owner.
    const found = isSpill ? await stat(path).catch(() => undefined) : undefined;
    if (found !== undefined && nowMs - found.mtimeMs > LEFT_BEHIND_MS) {
      await rm(path, { recursive: true, force: true });
    }
  }
}
