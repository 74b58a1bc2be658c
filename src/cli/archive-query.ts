import { resolve } from 'node:path';
import { ArchiveFolder, readArchive } from '../archive/index.js';
import { archivedRows, FileQueryFailed, filesText, QueryProcess } from '../usage/index.js';
import { csvCell } from '../wire/index.js';

/** An operator waits longer than a client, on a machine that may have nothing else to do. */
const LIMITS = { memoryMb: 2048, spillMb: 2000, threads: 4, timeoutMs: 600_000 };
const VIEWS = ['charges', 'events', 'audit'] as const;

export interface ArchiveQueryOptions {
  /** The folder of ARCHIVE_DIR. */
  readonly folder: string;
  readonly sql: string;
  readonly print: (text: string) => void;
  /** Prints what the reader should know of the rows. */
  readonly warn: (text: string) => void;
}

/**
 * Runs a SELECT on the published days of an archive, in the views charges, events and audit, and prints its rows as CSV while they come.
 * @returns whether all rows were printed; if not, it has said why, and after how many
 */
export async function queryArchive({ folder, sql, print, warn }: ArchiveQueryOptions): Promise<boolean> {
  const archive = new ArchiveFolder(resolve(folder));
  const views: Record<string, string> = {};
  for (const kind of VIEWS) {
    const { files, gaps, superseded } = await readArchive(
      archive,
      kind,
      [0, Number.MAX_SAFE_INTEGER],
      new Map(),
    );
    gaps.forEach(({ file, why }) => warn(`left out: ${file ?? kind} (${why})`));
    if (files.length > 0) {
      views[kind] = archivedRows(filesText(files), superseded);
    }
  }
  if (Object.keys(views).length === 0) {
    warn('no day of the archive is published yet; a day is published after midnight UTC');
    return false;
  }
  const process = new QueryProcess({ ...LIMITS, folder: archive.root });
  let printed: number | undefined;
  try {
    for await (const { columns, rows } of process.stream({ sql, parameters: {}, views })) {
      const lines = printed === undefined ? [columns, ...rows] : rows;
      if (lines.length > 0) {
        print(lines.map(csvLine).join('\n'));
      }
      printed = (printed ?? 0) + rows.length;
    }
    return true;
  } catch (error) {
    if (!(error instanceof FileQueryFailed)) {
      throw error;
    }
    warn(
      error.failure === 'missing'
        ? 'install the package @duckdb/node-api to query the archive'
        : error.message,
    );
    if (printed !== undefined) {
      warn(`the rows above are not all: it stopped after ${printed}`);
    }
    return false;
  } finally {
    await process.stop();
  }
}

const csvLine = (cells: readonly (string | null)[]): string =>
  cells.map((cell) => csvCell(cell ?? undefined)).join(',');
