import { join, resolve } from 'node:path';
import {
  type Archived,
  ARCHIVED,
  ArchiveFolder,
  DamagedFile,
  daysFromTo,
  earlierEpochs,
  type Epoch,
  FIRST,
  type Manifest,
  ParquetThread,
  placeOf,
  type PublishedFile,
  STREAM_COLUMNS,
  supersededOf,
} from '../archive/index.js';
import { archivedRows, FileQueryFailed, filesText, QueryProcess } from '../usage/index.js';

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
  const charges: string[] = [];
  const check: Check = async (kind, path, sha256, published) => {
    files += 1;
    const name = archive.nameOf(path);
    try {
      const found = await thread.run({
        kind: 'check',
        path,
        columns: STREAM_COLUMNS[kind],
        ...(sha256 !== undefined && { sha256 }),
      });
      rows += found.rows;
      if (kind === 'charges') {
        charges.push(path);
      }
      if (found.doubled > 0) {
        faults.push(`${name}: ${found.doubled} rows are there twice`);
      }
      if (published !== undefined) {
        faults.push(...differences(found, published).map((fault) => `${name}: ${fault}`));
      }
    } catch (error) {
      faults.push(
        `${name}: ${(error as NodeJS.ErrnoException).code === 'ENOENT' ? 'it is missing' : `it is damaged: ${error instanceof DamagedFile ? error.why : (error as Error).message}`}`,
      );
    }
  };
  const identity = await archive.identityOrFault();
  if (typeof identity === 'string') {
    faults.push(`archive.json: ${identity}`);
  }
  const epochs = typeof identity === 'string' ? [] : identity.epochs;
  epochs.forEach(({ deployment_id: deployment, began_ms: beganMs }, index) =>
    print(`epoch ${index + 1}: of deployment ${deployment}, since ${new Date(beganMs).toISOString()}`),
  );
  const last = await checkPublished(archive, check, faults);
  for (const kind of ARCHIVED) {
    for (let partition = 0; partition < PARTITIONS; partition += 1) {
      const { links, holes } = await stagedChain(archive, kind, partition, { epochs, manifest: last });
      for (const { path, sha256 } of links) {
        await check(kind, path, sha256);
      }
      const where = archive.nameOf(archive.stagingOf(kind, partition));
      faults.push(
        ...holes.map(({ after, upTo }) => `${where}: entries after ${after} up to ${upTo} are missing`),
      );
    }
  }
  await thread.stop();
  faults.push(...(await verifyRecords(archive, charges, epochs, print)));
  faults.forEach((fault) => warn(fault));
  print(`${files} files with ${rows} rows, ${faults.length} faults`);
  return faults.length === 0;
}

/** Names what is wrong with a file. */
type Check = (
  kind: Archived,
  path: string,
  sha256: string | undefined,
  published?: PublishedFile,
) => Promise<void>;

/** @returns the last manifest that can be read */
async function checkPublished(
  archive: ArchiveFolder,
  check: Check,
  faults: string[],
): Promise<Manifest | undefined> {
  let last: Manifest | undefined;
  for (const day of daysFromTo(await archive.days())) {
    try {
      last = await archive.manifest(day);
    } catch (error) {
      faults.push((error as Error).message);
      continue;
    }
    if (last === undefined) {
      faults.push(`${archive.nameOf(archive.publishedOf(day))}/manifest.json: it is missing`);
    }
    for (const kind of ARCHIVED) {
      const published = last?.files[kind];
      if (published !== undefined) {
        await check(kind, join(archive.publishedOf(day), `${kind}.parquet`), published.sha256, published);
        faults.push(
          ...published.gaps.map((gap) => `${day}: ${kind} were published with a gap, ${JSON.stringify(gap)}`),
        );
      }
    }
  }
  return last;
}

/** What a partition has staged of a stream, in all epochs. */
async function stagedChain(
  archive: ArchiveFolder,
  kind: Archived,
  partition: number,
  published: Parameters<typeof earlierEpochs>[2],
): ReturnType<typeof earlierEpochs> {
  const staged = await archive.staged(kind, partition);
  if (staged.length === 0) {
    return { links: [], holes: [] };
  }
  const staging = { kind, partition, cursor: undefined, first: first(staged.map(({ from }) => from)) };
  const earlier = await earlierEpochs(archive, staging, published);
  const now = await archive.chain(placeOf(staging, published));
  return { links: [...earlier.links, ...now.links], holes: [...earlier.holes, ...now.holes] };
}

/** Records of which one query looks for a second end: some 500 MB of memory. */
const RECORDS_AT_ONCE = 4_000_000;
const TWICE_NAMED = 100;
const LIMITS = { memoryMb: 2048, spillMb: 0, threads: 4, timeoutMs: 600_000 };

/** Prints what is superseded. @returns the records that ended twice without that */
async function verifyRecords(
  { root }: ArchiveFolder,
  files: readonly string[],
  epochs: readonly Epoch[],
  print: (text: string) => void,
): Promise<string[]> {
  if (files.length === 0) {
    return [];
  }
  const views = { charges: archivedRows(filesText(files), supersededOf(epochs, 'charges')) };
  const process = new QueryProcess({ ...LIMITS, folder: root });
  const rowsOf = async (sql: string) => (await process.run({ sql, parameters: {}, views })).rows;
  try {
    const superseded = await rowsOf(
      "SELECT unit, sum(charged), count(*) FROM charges WHERE is_superseded AND source <> 'CORRECTION' GROUP BY unit ORDER BY unit",
    );
    superseded.forEach(([unit, sum, count]) => print(`superseded: ${count} charges of ${sum} ${unit}`));
    const [[count = '0'] = []] = await rowsOf('SELECT count(*) FROM charges');
    const passes = Math.ceil(Number(count) / RECORDS_AT_ONCE);
    const twice: string[] = [];
    for (let pass = 0; pass < passes && twice.length < TWICE_NAMED; pass += 1) {
      const found = await rowsOf(
        `SELECT record_id, count(*) FROM charges WHERE NOT is_superseded AND source NOT IN ('CORRECTION', 'REFUND') AND hash(record_id) % ${passes} = ${pass} GROUP BY record_id HAVING count(*) > 1 ORDER BY record_id LIMIT ${TWICE_NAMED}`,
      );
      twice.push(...found.map(([id, ends]) => `${id} has ended ${ends} times`));
    }
    return twice.slice(0, TWICE_NAMED);
  } catch (error) {
    if (error instanceof FileQueryFailed && error.failure === 'missing') {
      print(
        'records that ended twice and what is superseded: not looked for, install the package @duckdb/node-api',
      );
      return [];
    }
    if (error instanceof FileQueryFailed && error.failure === 'refused') {
      return [`records that ended twice cannot be looked for: ${error.message}`];
    }
    throw error;
  } finally {
    await process.stop();
  }
}

/** Without a published day, the chain begins with its first file; whether that is the first one ever, only Redis knows. */
function first(entries: readonly string[]): string {
  return [...entries].sort((one, other) => Number.parseInt(one, 10) - Number.parseInt(other, 10))[0] ?? FIRST;
}

function differences(
  found: { readonly rows: number; readonly sums: readonly object[] },
  published: PublishedFile,
): string[] {
  return [
    ...(found.rows === published.rows
      ? []
      : [`it has ${found.rows} rows, the manifest says ${published.rows}`]),
    ...(published.sums === undefined || JSON.stringify(found.sums) === JSON.stringify(published.sums)
      ? []
      : ['its sums are not those of the manifest']),
  ];
}
