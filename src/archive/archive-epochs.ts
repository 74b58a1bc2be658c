import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { archiveEpochKey, journalPlacesKey, type RedisService } from '../redis/index.js';
import type { Instruments, Logger } from '../telemetry/index.js';
import type { ArchiveFolder } from './archive-folder.js';
import type { ARCHIVE_METRICS } from './archive.metrics.js';
import { type Epoch, identityText, type RestoredTo } from './archive-identity.js';
import { ArchivePartition } from './archive-partition.js';
import { reachOf } from './archive-staging.js';
import { ARCHIVED, type Archived, compareEntries, type EntryId, FIRST, msOf } from './entry-chain.js';
import type { ParquetThread } from './parquet-thread.js';

/** Far longer than an epoch takes to begin. */
const LOCK_MS = 60_000;

/**
 * Notices that Redis was put back to an earlier state, and begins an epoch then.
 *
 * Redis keeps every entry after a cursor. So it was put back if a file reaches beyond the cursor to an entry that Redis does not have, or if it has
 * another epoch than `archive.json`. An epoch begins so:
 *
 * 1. Nobody archives any partition any more: its epoch in Redis is 0, so whoever works for the last one moves no cursor.
 * 2. `archive.json` gets the epoch, with the last entry of each stream that both Redis and the files have: `restored_to`.
 * 3. Each partition goes on there, and its epoch in Redis is the new one.
 *
 * Whoever dies in between leaves partitions of another epoch than that of `archive.json`, and the next one begins one more.
 */
export class ArchiveEpochs {
  constructor(
    private readonly redis: RedisService,
    private readonly folder: ArchiveFolder,
    private readonly thread: ParquetThread,
    private readonly logger: Logger,
    private readonly counts: Instruments<typeof ARCHIVE_METRICS>,
  ) {}

  /**
   * Whether a partition may be archived: it goes on where its files end. If it does not, an epoch begins, or another instance begins one, and the
   * partition may be archived once its lease has said so.
   * @throws StoreUnavailable, or an error of the file system
   */
  async goesOn(partition: ArchivePartition): Promise<boolean> {
    if (partition.isChecked) {
      return true;
    }
    if (await this.wasPutBack(partition)) {
      await this.begin(() => this.wasPutBack(partition));
      return false;
    }
    // Its lease may have been renewed before an epoch began.
    partition.isChecked = partition.epoch === (await this.folder.identity()).epochs.length;
    return partition.isChecked;
  }

  private async wasPutBack(partition: ArchivePartition): Promise<boolean> {
    const published = await this.folder.published();
    const places = journalPlacesKey(partition.tag);
    const epoch = await this.redis.client.hget(places, 'epoch');
    if (Number(epoch ?? 1) !== published.epochs.length) {
      return true;
    }
    for (const kind of ARCHIVED) {
      const prefix = kind === 'charges' ? '' : `${kind}-`;
      const { end } = await reachOf(this.folder, kind, partition.number, FIRST, published);
      const found = await this.redis.client.xrange(partition.keyOf(kind), end, end);
      // Read afterwards: who archives the partition meanwhile lets an entry go only once it has moved the cursor over it.
      const [cursor, through, lost] = await this.redis.client.hmget(
        places,
        `${prefix}cursor`,
        `${prefix}through`,
        `${prefix}lost`,
      );
      const isPassed = [cursor, lost].some((place) => compareEntries(end, place ?? FIRST) <= 0);
      // A rebuilt manifest has an end that no entry has; everything up to there was archived when the day was published.
      if (found.length === 0 && !isPassed && msOf(end) > Number(through ?? 0)) {
        return true;
      }
    }
    return false;
  }

  /**
   * Does nothing while another instance does it.
   * @param isNeeded no longer if another instance has done it meanwhile
   */
  async begin(isNeeded: () => Promise<boolean> = () => Promise.resolve(true)): Promise<void> {
    const { client, deployment, partitions } = this.redis;
    const token = randomBytes(9).toString('base64url');
    if ((await client.set(archiveEpochKey(), token, 'PX', LOCK_MS, 'NX')) !== 'OK') {
      return;
    }
    try {
      if (!(await isNeeded())) {
        return;
      }
      const { restoring: _, ...identity } = await this.folder.identity();
      const epoch = identity.epochs.length + 1;
      const all = Array.from({ length: partitions }, (_one, number) => new ArchivePartition(number));
      const restored: Record<Archived, Record<string, EntryId>> = { charges: {}, events: {}, audit: {} };
      let nowMs = 0;
      for (const partition of all) {
        const at = await this.enter(partition, 0);
        for (const kind of ARCHIVED) {
          restored[kind][partition.code] = await this.lastCommon(partition, kind, at[kind], at.nowMs);
        }
        nowMs = at.nowMs;
      }
      if ((await client.get(archiveEpochKey())) !== token) {
        return;
      }
      const begun: Epoch = { deployment_id: deployment.id, began_ms: nowMs, restored_to: restored };
      const text = identityText({ ...identity, epochs: [...identity.epochs, begun] });
      await this.thread.run({ kind: 'text', path: join(this.folder.root, 'archive.json'), text });
      for (const partition of all) {
        await this.enter(partition, epoch, restored);
      }
      this.counts.epochs.inc();
      this.logger.warn(
        { epoch },
        'REDIS WAS PUT BACK: an epoch of the archive begins, and what it has of later is superseded',
      );
    } finally {
      await client.del(archiveEpochKey());
    }
  }

  private enter(partition: ArchivePartition, epoch: number, cursors?: RestoredTo) {
    const cursorOf = (kind: Archived): EntryId => cursors?.[kind][partition.code] ?? '';
    return this.redis.scripts.call(
      'archive_epoch',
      { journal: partition.keyOf('charges') },
      { epoch, charges: cursorOf('charges'), events: cursorOf('events'), audit: cursorOf('audit') },
    );
  }

  /**
   * The last entry of the files that Redis has, too, if no entry is missing from the cursor on: what follows is archived again. By an entry's time
   * alone it cannot be told from one that is new if Redis' clock is behind the files, as a test clock that was put back. Then it is the cursor.
   */
  private async lastCommon(
    partition: ArchivePartition,
    kind: Archived,
    cursor: EntryId,
    nowMs: number,
  ): Promise<EntryId> {
    const published = await this.folder.published();
    const { end, whole } = await reachOf(this.folder, kind, partition.number, cursor, published);
    if (compareEntries(end, cursor) <= 0 || msOf(end) >= nowMs) {
      return cursor;
    }
    const [last] = await this.redis.client.xrevrange(partition.keyOf(kind), end, `(${cursor}`, 'COUNT', 1);
    const found = last?.[0] ?? cursor;
    return compareEntries(found, whole) < 0 ? found : whole;
  }
}
