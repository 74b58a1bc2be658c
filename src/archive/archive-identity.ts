import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { archiveIdKey, type RedisService } from '../redis/index.js';
import type { ParquetThread } from './parquet-thread.js';

/** A folder that is not this ledger's archive. Nothing is written to it until an operator decides. */
export class ForeignArchive extends Error {
  override readonly name = 'ForeignArchive';
}

/**
 * Makes sure that the folder is the archive of this ledger, and makes it that if neither has another. Both keep the id: so of two instances
 * that have different disks under the same path, only one archives, and a folder of another ledger stays as it is.
 * @returns the id
 * @throws ForeignArchive; an error of the file system; StoreUnavailable
 */
export async function identifyArchive(
  root: string,
  redis: RedisService,
  thread: ParquetThread,
): Promise<string> {
  await mkdir(root, { recursive: true });
  const ofFolder = await idIn(root);
  const ofLedger = await redis.client.get(archiveIdKey());
  if (ofLedger === null && ofFolder !== undefined && !(await isEmpty(root))) {
    throw new ForeignArchive(
      `${root} is archive ${ofFolder} of another ledger, or this ledger has lost its data: give it another ARCHIVE_DIR, or adopt the archive by setting the key ${archiveIdKey()} in Redis to that id`,
    );
  }
  if (ofLedger !== null && ofFolder !== undefined && ofFolder !== ofLedger) {
    throw differs(root, ofFolder, ofLedger);
  }
  if (ofLedger !== null && ofFolder === undefined) {
    throw new ForeignArchive(
      `this ledger is archived to archive ${ofLedger}, and ${root} is empty: all archivers need the same folder; if that is lost, delete the key ${archiveIdKey()} in Redis, and another archive begins where this one ended`,
    );
  }
  const id = ofFolder ?? `arc_${randomBytes(9).toString('base64url')}`;
  if (ofFolder === undefined) {
    await writeId(root, id, thread);
  }
  await redis.client.setnx(archiveIdKey(), id);
  // Another instance may have been first, on this disk or on its own.
  const [made, agreed] = [await idIn(root), await redis.client.get(archiveIdKey())];
  if (agreed === null || made !== agreed) {
    throw differs(root, made ?? id, agreed ?? 'none');
  }
  return agreed;
}

export async function writeId(root: string, id: string, thread: ParquetThread): Promise<void> {
  await thread.run({ kind: 'text', path: join(root, 'archive.json'), text: `${JSON.stringify({ id })}\n` });
}

export async function idIn(root: string): Promise<string | undefined> {
  try {
    return (JSON.parse(await readFile(join(root, 'archive.json'), 'utf8')) as { id: string }).id;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') {
      return undefined;
    }
    throw error;
  }
}

async function isEmpty(root: string): Promise<boolean> {
  return (await readdir(root)).every((name) => name === 'archive.json' || name.startsWith('.'));
}

function differs(root: string, ofFolder: string, ofLedger: string): ForeignArchive {
  return new ForeignArchive(
    `${root} is archive ${ofFolder}, and this ledger is archived to archive ${ofLedger}: all archivers of a ledger need the same folder`,
  );
}
