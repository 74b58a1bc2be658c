import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { parquetReadObjects } from 'hyparquet';
import { ArchiveFolder } from '../../src/archive/archive-folder.js';
import { type ArchiveReading, readArchive as read } from '../../src/archive/archive-reading.js';
import type { Archived } from '../../src/archive/entry-chain.js';
import { readPlaces } from '../../src/archive/archive-places.js';
import type { RedisService } from '../../src/redis/index.js';

export type ArchivedRow = Readonly<Record<string, unknown>>;

/** The rows of a Parquet file, as any reader sees them. */
export async function parquetRows(path: string): Promise<ArchivedRow[]> {
  const { buffer, byteOffset, byteLength } = readFileSync(path);
  return parquetReadObjects({
    file: buffer.slice(byteOffset, byteOffset + byteLength),
    compressors: { GZIP: (bytes: Uint8Array) => gunzipSync(bytes) },
  });
}

/** What a reader of the archive sees of a stream: the rows in the order of partitions and entries, with what it is told. */
export async function readArchive(
  root: string,
  redis: RedisService,
  kind: Archived = 'charges',
): Promise<ArchiveReading & { readonly rows: ArchivedRow[] }> {
  const reading = await read(new ArchiveFolder(root), kind, [0, Infinity], await readPlaces(redis, kind));
  const rows = (await Promise.all(reading.files.map(parquetRows))).flat();
  return { ...reading, rows };
}

/** The places of entries that more than one row has. */
export function doubled(rows: readonly ArchivedRow[]): string[] {
  const seen = new Set<string>();
  return rows.flatMap(({ partition, entry }) => {
    const place = `${String(partition)} ${String(entry)}`;
    const isSeen = seen.has(place);
    seen.add(place);
    return isSeen ? [place] : [];
  });
}
