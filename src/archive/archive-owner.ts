import { randomBytes } from 'node:crypto';
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { archiveIdKey, type RedisService } from '../redis/index.js';
import { type ArchiveIdentity, createIdentity, identityText, readIdentity } from './archive-identity.js';
import type { ParquetThread } from './parquet-thread.js';

/** A folder that is not this deployment's archive. Nothing is written to it until an operator decides. */
export class ForeignArchive extends Error {
  override readonly name = 'ForeignArchive';
}

/**
 * Makes sure that the folder is the archive of this deployment, and makes it that if it is empty. `archive.json` names the deployment, so that
 * of two that begin in one folder, one does. Redis keeps the id of the archive: so of two instances that have different disks under the same
 * path, only one archives.
 * @throws ForeignArchive; SyntaxError if archive.json is damaged; an error of the file system; StoreUnavailable
 */
export async function ownArchive(
  root: string,
  redis: RedisService,
  thread: ParquetThread,
): Promise<ArchiveIdentity> {
  await mkdir(root, { recursive: true });
  const ofLedger = await redis.client.get(archiveIdKey());
  let identity = await readIdentity(root);
  if (identity === undefined) {
    if (ofLedger !== null) {
      throw new ForeignArchive(
        `this ledger is archived to archive ${ofLedger}, and ${root} is empty: all archivers need the same folder; if that is lost, delete the key ${archiveIdKey()} in Redis, and another archive begins where this one ended`,
      );
    }
    identity = await begin(root, redis);
  }
  const owner = identity.epochs.at(-1)?.deployment_id;
  if (owner === undefined && identity.id === ofLedger) {
    identity = { ...identity, epochs: [await firstEpoch(redis)] };
    await thread.run({ kind: 'text', path: join(root, 'archive.json'), text: identityText(identity) });
  } else if (owner !== redis.deployment.id && !mayTakeOver(identity, redis)) {
    throw new ForeignArchive(
      `${root} is the archive of ${owner === undefined ? 'a ledger of version 0.7' : `deployment ${owner}`}, and this is deployment ${redis.deployment.id}: give it an ARCHIVE_DIR of its own. If it is a copy that goes on in place of the original, which is stopped for good, add "restoring": true to archive.json`,
    );
  }
  await redis.client.setnx(archiveIdKey(), identity.id);
  const agreed = await redis.client.get(archiveIdKey());
  if (agreed !== identity.id) {
    throw new ForeignArchive(
      `${root} is archive ${identity.id}, and this ledger is archived to archive ${agreed}: all archivers of a ledger need the same folder`,
    );
  }
  return identity;
}

/** Whether the deployment is a copy of one that had the archive, and goes on in its place. */
const mayTakeOver = ({ restoring, epochs }: ArchiveIdentity, { deployment }: RedisService): boolean =>
  restoring === true && epochs.some(({ deployment_id: id }) => id === deployment.restoredFrom);

/** @returns what archive.json says then, which another one may have written */
async function begin(root: string, redis: RedisService): Promise<ArchiveIdentity> {
  if ((await readdir(root)).some((name) => name === 'published' || name.startsWith('staging'))) {
    throw new ForeignArchive(
      `${root} has files of an archive and no archive.json, which says whose they are: restore it, or give an empty ARCHIVE_DIR`,
    );
  }
  const identity = {
    id: `arc_${randomBytes(9).toString('base64url')}`,
    epochs: [await firstEpoch(redis)],
  };
  try {
    await createIdentity(root, identity);
    return identity;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') {
      throw error;
    }
    return (await readIdentity(root)) ?? identity;
  }
}

async function firstEpoch({ deployment, clock }: RedisService) {
  return { deployment_id: deployment.id, began_ms: await clock.readLedgerMs() };
}
