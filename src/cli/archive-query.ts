import { resolve } from 'node:path';
import { ArchiveFolder, readArchive } from '../archive/index.js';
import { archivedRows, FileQueryFailed, filesText, QueryProcess } from '../usage/index.js';
import { csvCell } from '../wire/index.js';

/** An operator waits longer than a client, on a machine that may have nothing else to do. */
const LIMITS = { memoryMb: 2048, threads: 4, timeoutMs: 600_000 };
const MOST_ROWS = 1_000_000;
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
 * Runs a SELECT on the published days of an archive, in the views charges, events and audit, and prints its rows as CSV.
 * @returns whether there were rows to print; if not, it has said why
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
  try {
    const { columns, rows, more } = await process.run({ sql, parameters: {}, views, most: MOST_ROWS });
    for (const cells of [columns, ...rows]) {
      print(cells.map((cell) => csvCell(cell ?? undefined)).join(','));
    }
    if (more) {
      warn(`only the first ${MOST_ROWS} rows are shown`);
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
    return false;
  } finally {
    process.stop();
  }
}
