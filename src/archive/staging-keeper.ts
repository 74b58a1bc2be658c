import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { partitionCode } from '../redis/index.js';
import {
  type Archived,
  type ArchiveFolder,
  type ArchivePlace,
  dayOf,
  type StagedFile,
  unfinishedIn,
} from './archive-folder.js';
import { compareEntries, type EntryId, msOf } from './entry-chain.js';
import type { ParquetThread } from './parquet-thread.js';
import { STREAM_COLUMNS } from './stream-columns.js';

/** A stream with little traffic gets a file a minute. So many small ones, of one day and one after the other, become one. */
const MERGED_AT_ONCE = 16;
/** About 2,500 rows. Larger files stay: rewriting them costs more than it saves readers. */
const SMALL_BYTES = 200_000;

/**
 * Keeps the staged files of a partition few: merges small ones, and removes what no reader needs. Neither touches what is younger than `keepMs`
 * before what is archived: a failover may move a cursor back by that much.
 */
export class StagingKeeper {
  /** Since when nobody needs a file, by the monotonic clock. */
  private unneeded = new Map<string, number>();

  constructor(
    private readonly folder: ArchiveFolder,
    private readonly thread: ParquetThread,
    private readonly keepMs: number,
  ) {}

  /** @returns how many files have been merged into one */
  async merge(
    kind: Archived,
    partition: number,
    published: EntryId | undefined,
    place: ArchivePlace,
  ): Promise<number> {
    const start = published ?? place.first;
    const chain = await this.folder.chain({ kind, partition, start, cursor: place.cursor });
    if (chain.links.length < MERGED_AT_ONCE) {
      return 0;
    }
    let run: StagedFile[] = [];
    for (const link of chain.links) {
      if (msOf(link.to) >= place.throughMs - this.keepMs) {
        return 0;
      }
      const isSmall = (await stat(link.path)).size < SMALL_BYTES;
      const last = run.at(-1);
      const follows =
        last === undefined || (last.to === link.from && dayOf(msOf(last.to)) === dayOf(msOf(link.to)));
      run = isSmall ? [...(follows ? run : []), link] : [];
      if (run.length === MERGED_AT_ONCE) {
        await this.thread.run({
          kind: 'rewrite',
          path: this.folder.stagedPath(kind, partition, (run[0] as StagedFile).from, link.to),
          columns: STREAM_COLUMNS[kind],
          inputs: run.map(({ path }) => path),
          sortBy: [],
        });
        return MERGED_AT_ONCE;
      }
    }
    return 0;
  }

  /** Removes files that are published, inside larger ones, or left behind unfinished, once they have been so for `keepMs`. */
  async removeUnneeded(
    kind: Archived,
    partition: number,
    published: EntryId | undefined,
    place: ArchivePlace,
  ): Promise<void> {
    const folder = this.folder.stagingOf(kind, partition);
    const unfinished = await unfinishedIn(folder);
    const chain = await this.folder.chain({
      kind,
      partition,
      start: published ?? place.first,
      cursor: place.cursor,
    });
    const used = new Set(chain.links.map(({ path }) => path));
    const isOver = ({ to }: StagedFile): boolean =>
      published !== undefined && compareEntries(to, published) <= 0
        ? true
        : msOf(to) < place.throughMs - this.keepMs && compareEntries(to, place.cursor) <= 0;
    const over = (await this.folder.staged(kind, partition)).filter(
      (file) => !used.has(file.path) && isOver(file),
    );
    const now = performance.now();
    const before = this.unneeded;
    const prefix = join(folder, '/');
    this.unneeded = new Map([...before].filter(([path]) => !path.startsWith(prefix)));
    for (const path of [...over.map((file) => file.path), ...unfinished]) {
      const since = before.get(path) ?? now;
      if (now - since >= this.keepMs) {
        await rm(path, { force: true });
      } else {
        this.unneeded.set(path, since);
      }
    }
  }
}

/** Where what is published of a partition ends. */
export function endOf(
  ends: Readonly<Record<string, EntryId>> | undefined,
  partition: number,
): EntryId | undefined {
  return ends?.[partitionCode(partition)];
}
