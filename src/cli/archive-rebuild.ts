import { stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import {
  type Archived,
  ARCHIVED,
  ArchiveFolder,
  type ArchiveGap,
  contentOf,
  DamagedFile,
  type Epoch,
  type EntryId,
  faultOf,
  FIRST,
  type Manifest,
  manifestText,
  msOf,
  ParquetThread,
  type PublishedFile,
  rewritten,
  SORT_BY,
  STREAM_COLUMNS,
} from '../archive/index.js';
import { DAY_MS } from '../ledger/index.js';
import { partitionCode } from '../redis/index.js';
import { type ArchiveVerifyOptions, PARTITIONS } from './archive-verify.js';

export interface ArchiveRebuildOptions extends ArchiveVerifyOptions {
  /** As YYYY-MM-DD. None: all that are published. */
  readonly days: readonly string[];
}

/** What is published so far, or was before. */
interface Known {
  readonly day: string;
  readonly before: Manifest | undefined;
  readonly old: Manifest | undefined;
  readonly epochs: readonly Epoch[];
}

/**
 * Makes the manifests of published days again from what their files hold, with what staging still has of a file that is missing and of gaps. No
 * row is changed or removed. A file that cannot be read stays as it is, with what its manifest says.
 * @returns whether every day was rebuilt; if not, it has said why
 */
export async function rebuildArchive({ folder, days, print, warn }: ArchiveRebuildOptions): Promise<boolean> {
  const archive = new ArchiveFolder(resolve(folder));
  const published = await archive.days();
  const unknown = days.filter((day) => !published.includes(day));
  if (unknown.length > 0 || published.length === 0) {
    warn(`not published: ${unknown.join(', ') || 'any day'}. Nothing was changed.`);
    return false;
  }
  const { id, epochs } = await archive.identity();
  const thread = new ParquetThread();
  let [isComplete, changed] = [true, 0];
  let before: Manifest | undefined;
  try {
    for (const day of published) {
      const old = await archive.manifest(day).catch(() => undefined);
      if (days.length > 0 && !days.includes(day)) {
        before = old ?? before;
        continue;
      }
      const files: Partial<Record<Archived, PublishedFile>> = {};
      for (const kind of ARCHIVED) {
        const file = await rebuildFile(archive, thread, kind, {
          day,
          before,
          old,
          // Of a day without a manifest: none of a later epoch's entries can be in it, and none before its end comes later.
          epochs: epochs.slice(0, old === undefined ? undefined : (old.epoch ?? 1)),
        });
        if (file === undefined) {
          isComplete = false;
          warn(
            `${day}: ${kind}.parquet cannot be read. Restore it, or remove it and run this again: then it is a gap.`,
          );
        }
        const kept = file ?? old?.files[kind];
        if (kept !== undefined) {
          files[kind] = kept;
        }
        for (const line of file === undefined ? [] : changes(old?.files[kind], file)) {
          print(`${day}: ${kind}.parquet ${line}`);
        }
      }
      const manifest: Manifest = {
        archive_id: old?.archive_id ?? id,
        epoch: old === undefined ? epochs.length : (old.epoch ?? 1),
        day,
        files,
      };
      if (JSON.stringify(manifest) !== JSON.stringify(old)) {
        changed += 1;
        const path = join(archive.publishedOf(day), 'manifest.json');
        await thread.run({ kind: 'text', path, text: manifestText(manifest) });
      }
      before = manifest;
    }
  } finally {
    await thread.stop();
  }
  print(`${days.length || published.length} days, ${changed} manifests changed`);
  return isComplete;
}

/** @returns undefined if the file cannot be read */
async function rebuildFile(
  archive: ArchiveFolder,
  thread: ParquetThread,
  kind: Archived,
  { day, before, old, epochs }: Known,
): Promise<PublishedFile | undefined> {
  const path = join(archive.publishedOf(day), `${kind}.parquet`);
  const { gaps: oldGaps = [], ends = endsOf(day) } = old?.files[kind] ?? {};
  let gaps = [...oldGaps];
  const columns = STREAM_COLUMNS[kind];
  const isMissing = (await faultOf({ path })) === 'MISSING';
  const places = new Map(
    Array.from({ length: PARTITIONS }, (_, partition) => partition)
      .filter((partition) => ends[partitionCode(partition)] !== undefined)
      .map((partition) => {
        const cursor = ends[partitionCode(partition)] as EntryId;
        return [partition, { cursor, throughMs: 0, first: FIRST, beganMs: 0, epoch: epochs.length }];
      }),
  );
  const contentNow = async (): Promise<{
    readonly inputs: readonly string[];
    readonly gaps: readonly ArchiveGap[];
  }> =>
    isMissing
      ? contentOf(archive, kind, day, places, { epochs, manifest: before })
      : { inputs: [path, ...(await stagedIn(archive, kind, oldGaps))], gaps: [] };
  try {
    const { inputs } = await contentNow();
    if (isMissing || inputs.length > 1) {
      // A staged file may cover another, and a run that was stopped may have added its rows.
      const task = { kind: 'rewrite', path, columns, sortBy: SORT_BY, isUnique: true } as const;
      const [content] = await rewritten(thread, task, contentNow);
      gaps = [...oldGaps, ...content.gaps];
    }
    const { rows, sha256, sums, bySpan } = await thread.run({
      kind: 'check',
      path,
      columns,
      spans: gaps,
    });
    return {
      rows,
      bytes: (await stat(path)).size,
      sha256,
      ...(kind === 'charges' && { sums }),
      ends,
      gaps: gaps.filter((_, index) => bySpan[index] === 0),
    };
  } catch (error) {
    // Not of the file system: then the disk, not the file, is at fault.
    if (error instanceof DamagedFile) {
      return undefined;
    }
    throw error;
  }
}

/** The sound staged files inside gaps. */
async function stagedIn(
  archive: ArchiveFolder,
  kind: Archived,
  gaps: readonly ArchiveGap[],
): Promise<string[]> {
  const found: string[] = [];
  for (const { partition, fromMs, toMs } of gaps) {
    const staged = partition === undefined ? [] : await archive.staged(kind, partition);
    for (const file of staged.filter(({ from, to }) => msOf(from) >= fromMs && msOf(to) <= toMs)) {
      found.push(...((await faultOf(file)) === undefined ? [file.path] : []));
    }
  }
  return found;
}

/** Where a day ends whose manifest is lost: after everything that can be in it. */
function endsOf(day: string): Record<string, EntryId> {
  const end = `${Date.parse(day) + DAY_MS - 1}-${(1n << 64n) - 1n}`;
  return Object.fromEntries(
    Array.from({ length: PARTITIONS }, (_, partition) => [partitionCode(partition), end]),
  );
}

function changes(old: PublishedFile | undefined, file: PublishedFile): string[] {
  if (old === undefined) {
    return [`has ${file.rows} rows; its manifest was lost`];
  }
  const differs = old.sha256 !== file.sha256 || JSON.stringify(old.gaps) !== JSON.stringify(file.gaps);
  return differs
    ? [`has ${file.rows} rows (${old.rows} before) and ${file.gaps.length} gaps (${old.gaps.length} before)`]
    : [];
}
