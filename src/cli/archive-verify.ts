import { join, resolve } from 'node:path';
import {
  type Archived,
  ARCHIVED,
  ArchiveFolder,
  daysFromTo,
  FIRST,
  type Manifest,
  ParquetThread,
  type PublishedFile,
  STREAM_COLUMNS,
} from '../archive/index.js';

export interface ArchiveVerifyOptions {
  /** The folder of ARCHIVE_DIR. */
  readonly folder: string;
  readonly print: (text: string) => void;
  readonly warn: (text: string) => void;
}

/** At most so many partitions exist. */
export const PARTITIONS = 256;

/**
 * Reads every file of an archive: whether a published file is what its manifest says, whether any row is there twice, and whether the chains of
 * staged files have holes. It needs no Redis, so it does not know where the chains should end.
 * @returns whether nothing is wrong; if something is, it has named each fault
 */
export async function verifyArchive({ folder, print, warn }: ArchiveVerifyOptions): Promise<boolean> {
  const archive = new ArchiveFolder(resolve(folder));
  const thread = new ParquetThread();
  const faults: string[] = [];
  let [files, rows] = [0, 0];
  const check = async (kind: Archived, path: string, published?: PublishedFile): Promise<void> => {
    files += 1;
    const name = archive.nameOf(path);
    try {
      const columns = STREAM_COLUMNS[kind].map((column) => column.name);
      const found = await thread.run({ kind: 'check', path, columns });
      rows += found.rows;
      if (found.doubled > 0) {
        faults.push(`${name}: ${found.doubled} rows are there twice`);
      }
      if (published !== undefined) {
        faults.push(...differences(found, published).map((fault) => `${name}: ${fault}`));
      }
    } catch (error) {
      faults.push(
        `${name}: ${(error as NodeJS.ErrnoException).code === 'ENOENT' ? 'it is missing' : 'it cannot be read'}`,
      );
    }
  };
  let last: Manifest | undefined;
  for (const day of daysFromTo(await archive.days())) {
    try {
      last = await archive.manifest(day);
    } catch {
      faults.push(`${archive.nameOf(archive.publishedOf(day))}/manifest.json: it cannot be read`);
      continue;
    }
    if (last === undefined) {
      faults.push(`${archive.nameOf(archive.publishedOf(day))}/manifest.json: it is missing`);
    }
    for (const kind of ARCHIVED) {
      const published = last?.files[kind];
      if (published !== undefined) {
        await check(kind, join(archive.publishedOf(day), `${kind}.parquet`), published);
        faults.push(
          ...published.gaps.map((gap) => `${day}: ${kind} were published with a gap, ${JSON.stringify(gap)}`),
        );
      }
    }
  }
  for (const kind of ARCHIVED) {
    for (let partition = 0; partition < PARTITIONS; partition += 1) {
      const staged = await archive.staged(kind, partition);
      if (staged.length > 0) {
        const code = partition.toString(16).padStart(2, '0');
        const start = last?.files[kind]?.ends[code] ?? first(staged.map(({ from }) => from));
        const { links, holes } = await archive.chain({ kind, partition, start, cursor: undefined });
        for (const { path } of links) {
          await check(kind, path);
        }
        const where = archive.nameOf(archive.stagingOf(kind, partition));
        faults.push(
          ...holes.map(({ after, upTo }) => `${where}: entries after ${after} up to ${upTo} are missing`),
        );
      }
    }
  }
  await thread.stop();
  faults.forEach((fault) => warn(fault));
  print(`${files} files with ${rows} rows, ${faults.length} faults`);
  return faults.length === 0;
}

/** Without a published day, the chain begins with its first file; whether that is the first one ever, only Redis knows. */
function first(entries: readonly string[]): string {
  return [...entries].sort((one, other) => Number.parseInt(one, 10) - Number.parseInt(other, 10))[0] ?? FIRST;
}

function differences(
  found: { readonly sha256: string; readonly rows: number; readonly sums: readonly object[] },
  published: PublishedFile,
): string[] {
  return [
    ...(found.sha256 === published.sha256 ? [] : ['it is not the file that was published']),
    ...(found.rows === published.rows
      ? []
      : [`it has ${found.rows} rows, the manifest says ${published.rows}`]),
    ...(published.sums === undefined || JSON.stringify(found.sums) === JSON.stringify(published.sums)
      ? []
      : ['its sums are not those of the manifest']),
  ];
}
