import type { HoldfastConfig } from '../config/index.js';
import { DAY_MS } from '../ledger/index.js';
import type { RedisService } from '../redis/index.js';
import type { Instruments } from '../telemetry/index.js';
import { SharedRedisTime, type Turn } from '../worker/index.js';
import type { ArchiveFolder } from './archive-folder.js';
import type { ARCHIVE_METRICS } from './archive.metrics.js';
import type { ArchivePartition } from './archive-partition.js';
import { type Archived, type EntryId, msOf } from './entry-chain.js';
import { rowsText, type RowsText } from './parquet-tasks.js';
import type { ParquetThread } from './parquet-thread.js';
import { rowsOf } from './stream-rows.js';
import { STREAM_COLUMNS } from './stream-columns.js';

/** Entries that one script reads, with their records: a millisecond. */
const READ_A_RUN = 50;

/** With so many full files in a row it is late: more comes than it reads on time. */
const ON_TIME_FILES = 3;

/** The entries of a file, read but not yet written. */
interface Portion {
  readonly parts: readonly RowsText[];
  readonly rows: number;
  readonly last: EntryId;
  /** Everything up to this instant is in it or before it. */
  readonly throughMs: number;
  readonly more: boolean;
}

/**
 * Writes the entries of one stream to files, by this protocol:
 *
 * 1. Read entries after the cursor by scripts that check the lease and the cursor, only such as are older than the settle age, and of one UTC day.
 * 2. Write `<cursor>_<last entry>.parquet`: temporary name, fsync, rename, fsync of the folder.
 * 3. Move the cursor from where it was believed to be to the last entry. If it is not there any more, nothing is moved.
 * 4. In the same script, the journal lets go what is archived and packed.
 *
 * Whoever dies in between leaves the cursor where it was, and perhaps a file. The next one reads from the cursor again, and the file that it
 * writes begins where the leftover does. Readers follow the chain of files to the cursor (`chainOf`), so that a leftover counts only as long as
 * nothing else covers its entries. Nobody removes a leftover in haste: another archiver may have written the same file and moved the cursor.
 */
export class StreamArchiver {
  private readonly time: Readonly<Record<'onTime' | 'late', SharedRedisTime>>;

  constructor(
    private readonly redis: RedisService,
    private readonly folder: ArchiveFolder,
    private readonly thread: ParquetThread,
    private readonly counts: Instruments<typeof ARCHIVE_METRICS>,
    private readonly config: HoldfastConfig,
  ) {
    const timeOf = (share: number) => new SharedRedisTime({ share: share / 100, paused: () => undefined });
    this.time = { onTime: timeOf(config.archiveTimeShare), late: timeOf(config.archiveLateTimeShare) };
  }

  /**
   * Archives what has settled in a stream, file by file.
   * @throws StoreUnavailable; an error of this partition or of the file system. The cursor is where it was, or after a complete file.
   */
  async archive(partition: ArchivePartition, kind: Archived, token: string, turn: Turn): Promise<void> {
    const stream = partition.streams[kind];
    const { nowMs } = partition;
    let isLate = nowMs - (stream.oldestMs ?? nowMs) > this.config.archiveLateMs;
    if (stream.lost !== undefined) {
      // Without a file, so that readers find the hole.
      await this.advance(partition, kind, stream.lost, undefined);
    }
    let full = 0;
    for (let more = true; more && turn.goesOn();) {
      const portion = await this.read(partition, kind, token, turn, isLate);
      if (portion === undefined) {
        return;
      }
      if (portion.rows > 0) {
        await this.write(partition, kind, portion);
      }
      const moved = await this.advance(partition, kind, portion.last, portion.throughMs);
      if (moved && portion.rows > 0) {
        this.counts.rows.inc({ stream: kind }, portion.rows);
      }
      more = moved && portion.more;
      full += portion.rows >= this.config.archiveFileRows ? 1 : 0;
      isLate ||= full >= ON_TIME_FILES;
    }
  }

  /** Undefined if the turn ends, or this instance may not archive the partition now. */
  private async read(
    partition: ArchivePartition,
    kind: Archived,
    token: string,
    turn: Turn,
    isLate: boolean,
  ): Promise<Portion | undefined> {
    const { cursor } = partition.streams[kind];
    const parts: RowsText[] = [];
    let rows = 0;
    let last = cursor;
    let dayEndMs: number | undefined;
    for (;;) {
      if (!turn.goesOn()) {
        return undefined;
      }
      const place = { token, cursor, after: last, stopMs: dayEndMs };
      const reply = await this.time[isLate ? 'late' : 'onTime'].run(partition.tag, () =>
        this.page(partition, kind, place),
      );
      if (reply.status !== 'READ') {
        this.notMine(partition, kind, reply);
        return undefined;
      }
      const first = reply.entries[0]?.entryId;
      dayEndMs ??= first === undefined ? undefined : msOf(first) - (msOf(first) % DAY_MS) + DAY_MS;
      const found = ofDay(reply.entries, dayEndMs);
      if (found.length > 0) {
        parts.push(
          rowsText(
            STREAM_COLUMNS[kind],
            rowsOf(kind, partition, found, () => this.counts.failures.inc({ step: 'read' })),
          ),
        );
        rows += found.length;
        last = found.at(-1)?.entryId ?? last;
      }
      if (dayEndMs !== undefined && found.length < reply.entries.length) {
        return { parts, rows, last, throughMs: dayEndMs - 1, more: true };
      }
      if (!reply.more) {
        const isCut = dayEndMs !== undefined && reply.upperMs === dayEndMs - 1;
        return { parts, rows, last, throughMs: reply.upperMs, more: isCut };
      }
      if (rows >= this.config.archiveFileRows) {
        return { parts, rows, last, throughMs: msOf(last) - 1, more: true };
      }
    }
  }

  private page(
    partition: ArchivePartition,
    kind: Archived,
    {
      token,
      cursor,
      after,
      stopMs,
    }: { token: string; cursor: EntryId; after: EntryId; stopMs: number | undefined },
  ) {
    const { archiveSettleMs: settleMs, archiveMetadata } = this.config;
    return this.redis.scripts.call(
      'archive_page',
      { lease: partition.leaseKey, stream: partition.keyOf(kind) },
      {
        token,
        name: kind,
        cursor,
        after,
        stopMs: stopMs ?? '',
        settleMs,
        limit: READ_A_RUN,
        withMetadata: archiveMetadata ? 1 : 0,
      },
    );
  }

  private notMine(
    partition: ArchivePartition,
    kind: Archived,
    reply: { status: 'MOVED'; cursor: string } | { status: 'NOT_HELD' },
  ): void {
    if (reply.status === 'MOVED') {
      this.counts.moved.inc();
      partition.streams[kind].cursor = reply.cursor;
      partition.isChecked = false;
    }
  }

  private async write(partition: ArchivePartition, kind: Archived, { parts, last }: Portion): Promise<void> {
    await this.thread.run({
      kind: 'write',
      path: this.folder.stagedPath(
        { kind, partition: partition.number, epoch: partition.epoch },
        partition.streams[kind].cursor,
        last,
      ),
      hasHashInName: true,
      columns: STREAM_COLUMNS[kind],
      parts,
    });
    this.counts.files.inc({ written: 'staged' });
  }

  /** @returns whether the cursor was where this instance believed it */
  private async advance(
    partition: ArchivePartition,
    kind: Archived,
    last: EntryId,
    throughMs: number | undefined,
  ): Promise<boolean> {
    const stream = partition.streams[kind];
    const reply = await this.redis.scripts.call(
      'archive_advance',
      { stream: partition.keyOf(kind) },
      { name: kind, cursor: stream.cursor, last, epoch: partition.epoch, throughMs: throughMs ?? '' },
    );
    if (reply.status !== 'ADVANCED') {
      this.notMine(partition, kind, reply);
      return false;
    }
    stream.cursor = last;
    stream.throughMs = Math.max(stream.throughMs, throughMs ?? 0);
    // Until the next lease reply says otherwise.
    stream.oldestMs = undefined;
    stream.waiting = 0;
    stream.lost = undefined;
    return true;
  }
}

/** Those of one day, if the first one's end is given. */
function ofDay<E extends { readonly entryId: EntryId }>(
  entries: readonly E[],
  endMs = Infinity,
): readonly E[] {
  const end = entries.findIndex(({ entryId }) => msOf(entryId) >= endMs);
  return end === -1 ? entries : entries.slice(0, end);
}
