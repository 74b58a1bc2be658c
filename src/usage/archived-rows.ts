import type { Superseded } from '../archive/index.js';

/**
 * The rows of Parquet files of the archive as SQL, with a column `is_superseded`. Files of 0.7 have no epoch, and are all of the first one.
 * @param files a list, as SQL
 */
export function archivedRows(files: string, superseded: readonly Superseded[]): string {
  const rows = `read_parquet(${files}, union_by_name = true)`;
  if (superseded.length === 0) {
    return `(SELECT *, false AS is_superseded FROM ${rows})`;
  }
  const bounds = superseded.map(({ partition, epoch, after }) => {
    const [ms = '', sequence = ''] = after.split('-');
    return `(${partition}, ${epoch}, ${ms}::BIGINT, ${sequence}::UBIGINT)`;
  });
  const part = (index: number, type: string): string =>
    `TRY_CAST(split_part(entry, '-', ${index}) AS ${type})`;
  return `(
    SELECT archived.*, COALESCE(
      ${part(1, 'BIGINT')} > after_ms OR (${part(1, 'BIGINT')} = after_ms AND ${part(2, 'UBIGINT')} > after_sequence), false
    ) AS is_superseded
    FROM (FROM ${rows} UNION ALL BY NAME SELECT NULL::INTEGER AS epoch WHERE false) AS archived
    LEFT JOIN (VALUES ${bounds.join(', ')}) AS bounds(of_partition, of_epoch, after_ms, after_sequence)
    ON partition = of_partition AND COALESCE(epoch, 1) = of_epoch
  )`;
}

/** A list of files as SQL. */
export const filesText = (files: readonly string[]): string =>
  `[${files.map((file) => `'${file.replaceAll("'", "''")}'`).join(', ')}]`;
