import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import {
  type ArchiveFolder,
  type ArchivePlace,
  type ChainPlace,
  dayOf,
  type StagedFile,
  unfinishedIn,
} from './archive-folder.js';
import { compareEntries, msOf } from './entry-chain.js';
import { condemn, faultOf } from './file-faults.js';
import { DamagedFile, type ParquetThread } from './parquet-thread.js';
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
  async merge(staging: ChainPlace, place: ArchivePlace): Promise<number> {
    const chain = await this.folder.chain(staging);
    if (chain.links.length < MERGED_AT_ONCE) {
      return 0;
    }
    let run: StagedFile[] = [];
    for (const link of chain.links) {
      if (msOf(link.to) >= place.throughMs - this.keepMs) {
        return 0;
      }
      const mayMerge = (await faultOf(link)) === undefined && (await stat(link.path)).size < SMALL_BYTES;
      const last = run.at(-1);
      const follows =
        last === undefined || (last.to === link.from && dayOf(msOf(last.to)) === dayOf(msOf(link.to)));
      run = mayMerge ? [...(follows ? run : []), link] : [];
      if (run.length === MERGED_AT_ONCE) {
        return (await this.mergeRun(staging, run)) ? MERGED_AT_ONCE : 0;
      }
    }
    return 0;
  }

  private async mergeRun(staging: ChainPlace, run: readonly StagedFile[]): Promise<boolean> {
    const [first, last] = [run[0] as StagedFile, run.at(-1) as StagedFile];
    try {
      await this.thread.run({
        kind: 'rewrite',
        path: this.folder.stagedPath(staging, first.from, last.to),
        hasHashInName: true,
        columns: STREAM_COLUMNS[staging.kind],
        inputs: run.map(({ path }) => path),
        sortBy: [],
      });
      return true;
    } catch (error) {
      if (!(error instanceof DamagedFile)) {
        throw error;
      }
      // The others are merged without it at the next run.
      await condemn(error.path);
      return false;
    }
  }

  /** Removes files that are published, inside larger ones, or left behind unfinished, once they have been so for `keepMs`. */
  async removeUnneeded(
    staging: ChainPlace,
    place: ArchivePlace,
    publishedDay: string | undefined,
  ): Promise<void> {
    const { kind, partition, epoch, start } = staging;
    const folder = this.folder.stagingOf(kind, partition);
    const unfinished = await unfinishedIn(folder);
    const chain = await this.folder.chain(staging);
    const used = new Set(chain.links.map(({ path }) => path));
    // What follows the cursor was not archived, and what is of an earlier epoch is in no other file until it is published.
    const isOver = (file: StagedFile): boolean =>
      file.epoch === epoch
        ? compareEntries(file.to, start) <= 0 ||
          (msOf(file.to) < place.throughMs - this.keepMs && compareEntries(file.to, place.cursor) <= 0)
        : publishedDay !== undefined && dayOf(msOf(file.to)) <= publishedDay;
    const over: StagedFile[] = [];
    for (const file of await this.folder.staged(kind, partition)) {
      // A damaged one is not published. Only its mended copy can fill its gap.
      if (!used.has(file.path) && isOver(file) && (await faultOf(file)) !== 'DAMAGED') {
        over.push(file);
      }
    }
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
