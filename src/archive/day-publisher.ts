import { randomBytes } from 'node:crypto';
import { mkdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { DAY_MS } from '../ledger/index.js';
import { partitionCode } from '../redis/index.js';
import {
  type ArchiveFolder,
  type ArchiveGap,
  type ArchivePlaces,
  dayOf,
  type Manifest,
  manifestText,
  type Published,
  type PublishedFile,
  unfinishedIn,
} from './archive-folder.js';
import { earlierEpochs, placeOf } from './archive-staging.js';
import { ARCHIVED, type Archived, compareEntries, type EntryId, msOf } from './entry-chain.js';
import { condemn, faultOfNow } from './file-faults.js';
import type { RewriteTask, Rewritten } from './parquet-tasks.js';
import { DamagedFile, type ParquetThread } from './parquet-thread.js';
import { STREAM_COLUMNS } from './stream-columns.js';

export type AllPlaces = Readonly<Record<Archived, ArchivePlaces>>;

/** What of a stream belongs to a day. */
interface DayContent {
  readonly inputs: string[];
  readonly gaps: ArchiveGap[];
  readonly ends: Record<string, EntryId>;
}

/** Sorted so within what is in memory at a time: the rows of a tenant are together, which compresses them and lets readers skip the others. */
export const SORT_BY = ['tenant', 'recorded_at'];

/** The day after, or the first day of which anything is staged. Undefined if nothing is. */
export async function nextDay(folder: ArchiveFolder, partitions: number): Promise<string | undefined> {
  const last = (await folder.days()).at(-1);
  if (last !== undefined) {
    return dayOf(Date.parse(last) + DAY_MS);
  }
  const ends = await Promise.all(
    ARCHIVED.flatMap((kind) =>
      Array.from({ length: partitions }, async (_, partition) =>
        (await folder.staged(kind, partition)).map(({ to }) => dayOf(msOf(to))),
      ),
    ),
  );
  return ends.flat().sort()[0];
}

/**
 * Writes a day's files from what is staged, into a folder with a temporary name that is renamed when it is complete. Two that publish the same
 * day write the same; the second one finds that it is there.
 * @returns whether this call has published it
 */
export async function publishDay(
  { folder, id, thread }: { folder: ArchiveFolder; id: string; thread: ParquetThread },
  day: string,
  places: AllPlaces,
): Promise<boolean> {
  const work = join(folder.root, 'published', `.day=${day}.${randomBytes(6).toString('hex')}`);
  const before = (await folder.days()).at(-1);
  const earlier = before === undefined ? undefined : await folder.manifestOrFault(before);
  if (typeof earlier === 'string') {
    // Without it, rows that are published already would be published again.
    throw new Error(
      `published day ${before} has ${earlier === 'MISSING' ? 'no' : 'a damaged'} manifest.json: restore it, or \`npm run archive -- rebuild\` it`,
    );
  }
  const { epochs } = await folder.identity();
  const files: Partial<Record<Archived, PublishedFile>> = {};
  try {
    await mkdir(work, { recursive: true });
    for (const kind of ARCHIVED) {
      const [content, { sums, ...written }] = await rewritten(
        thread,
        {
          kind: 'rewrite',
          path: join(work, `${kind}.parquet`),
          columns: STREAM_COLUMNS[kind],
          sortBy: SORT_BY,
        },
        () => contentOf(folder, kind, day, places[kind], { epochs, manifest: earlier }),
      );
      files[kind] = {
        ...written,
        ...(kind === 'charges' && { sums }),
        ends: content.ends,
        gaps: content.gaps,
      };
    }
    const manifest: Manifest = { archive_id: id, epoch: epochs.length, day, files };
    await thread.run({
      kind: 'text',
      path: join(work, 'manifest.json'),
      text: manifestText(manifest),
    });
    await rename(work, folder.publishedOf(day));
    await thread.run({ kind: 'sync', path: join(folder.root, 'published') });
    return true;
  } catch (error) {
    if (['ENOTEMPTY', 'EEXIST'].includes((error as NodeJS.ErrnoException).code ?? '')) {
      return false;
    }
    throw error;
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/**
 * A file that only the parser finds to be damaged is a gap, too.
 * @throws DamagedFile if the content goes on to need it
 */
export async function rewritten<C extends { readonly inputs: readonly string[] }>(
  thread: ParquetThread,
  task: Omit<RewriteTask, 'inputs'>,
  contentNow: () => Promise<C>,
): Promise<readonly [C, Rewritten]> {
  for (const damaged = new Set<string>(); ;) {
    const content = await contentNow();
    try {
      return [content, await thread.run({ ...task, inputs: content.inputs })];
    } catch (error) {
      if (!(error instanceof DamagedFile) || damaged.has(error.path)) {
        throw error;
      }
      damaged.add(error.path);
      await condemn(error.path);
    }
  }
}

/** Longer than the files of the largest day take. */
const LEFT_BEHIND_MS = DAY_MS;

/** Removes what a process that was killed while it published or removed a day has left behind: up to all of the day's rows, each time. */
export async function removeLeftBehind(folder: ArchiveFolder, nowMs: number): Promise<void> {
  for (const path of await unfinishedIn(join(folder.root, 'published'))) {
    const { mtimeMs } = await stat(path);
    if (nowMs - mtimeMs > LEFT_BEHIND_MS) {
      await rm(path, { recursive: true, force: true });
    }
  }
}

/** What is staged of a day after what is published, up to the cursors. */
export async function contentOf(
  folder: ArchiveFolder,
  kind: Archived,
  day: string,
  places: ArchivePlaces,
  published: Published,
): Promise<DayContent> {
  const content: DayContent = { inputs: [], gaps: [], ends: {} };
  const belongs = (entry: EntryId): boolean => dayOf(msOf(entry)) <= day;
  for (const [partition, { cursor, first }] of places) {
    const staging = { kind, partition, cursor, first };
    const place = placeOf(staging, published);
    const [now, earlier] = [await folder.chain(place), await earlierEpochs(folder, staging, published)];
    const holes = [...earlier.holes, ...now.holes];
    let end = place.start;
    const reach = (entry: EntryId): void => {
      end = compareEntries(entry, end) > 0 ? entry : end;
    };
    for (const { path, from, to, epoch, ...written } of [...earlier.links, ...now.links].filter(({ to }) =>
      belongs(to),
    )) {
      const why = await faultOfNow({ ...written, path });
      if (epoch === place.epoch) {
        reach(to);
      }
      if (why === undefined) {
        content.inputs.push(path);
      } else {
        content.gaps.push({ partition, fromMs: msOf(from), toMs: msOf(to), file: folder.nameOf(path), why });
      }
    }
    for (const { after, upTo } of holes.filter((hole) => belongs(hole.after))) {
      content.gaps.push({ partition, fromMs: msOf(after), toMs: msOf(upTo), why: 'MISSING' });
    }
    for (const { upTo } of now.holes.filter((hole) => belongs(hole.upTo))) {
      reach(upTo);
    }
    content.ends[partitionCode(partition)] = end;
  }
  return content;
}
