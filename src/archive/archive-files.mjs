// Writes the files of the archive for archive-thread.mjs, each so that it is complete or not there.
import { createHash, randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { ByteWriter, ParquetWriter } from 'hyparquet-writer';

/**
 * @typedef {import('./parquet-tasks.js').Column} Column
 * @typedef {import('./parquet-tasks.js').Written} Written
 * @typedef {import('hyparquet').SchemaElement} SchemaElement
 */

/** @type {Record<Column['type'], Omit<SchemaElement, 'name'>>} */
const PARQUET_TYPES = {
  VARCHAR: { type: 'BYTE_ARRAY', converted_type: 'UTF8' },
  INTEGER: { type: 'INT32' },
  BIGINT: { type: 'INT64' },
  // Both, because readers such as DuckDB take the converted type alone for a local time.
  TIMESTAMP: {
    type: 'INT64',
    converted_type: 'TIMESTAMP_MILLIS',
    logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MILLIS' },
  },
};

/** Half the size of snappy at the lowest level, which DuckDB, ClickHouse, Trino and Athena read. Node.js 20 has no zstd. */
const compressors = { GZIP: (/** @type {Uint8Array} */ bytes) => gzipSync(bytes, { level: 1 }) };

/** Hex digits. archive-folder.ts reads them. */
const HASH_IN_NAME = 16;

/**
 * A file that becomes visible under its name only when it is complete and on its disk: a temporary name, fsync, rename, fsync of the folder.
 */
class SafeFile {
  /** @type {number | undefined} */
  #descriptor;

  /** @param {string} path */
  constructor(path) {
    this.path = path;
    mkdirSync(dirname(path), { recursive: true });
    this.temporary = join(dirname(path), `.${basename(path)}.${randomBytes(6).toString('hex')}`);
    this.#descriptor = openSync(this.temporary, 'wx');
  }

  /** @param {Uint8Array} chunk */
  write(chunk) {
    for (let written = 0; written < chunk.length;) {
      written += writeSync(/** @type {number} */ (this.#descriptor), chunk, written);
    }
  }

  finish(path = this.path) {
    fsyncSync(/** @type {number} */ (this.#descriptor));
    this.#close();
    renameSync(this.temporary, path);
    syncFolder(dirname(path));
  }

  discard() {
    this.#close();
    rmSync(this.temporary, { force: true });
  }

  /** Once: the next file or socket of the process may get the same number. */
  #close() {
    const descriptor = this.#descriptor;
    this.#descriptor = undefined;
    if (descriptor !== undefined) {
      closeSync(descriptor);
    }
  }
}

export class ParquetFile {
  /**
   * @param {SafeFile} file
   * @param {readonly Column[]} columns
   * @param {boolean} [hasHashInName]
   */
  constructor(file, columns, hasHashInName = false) {
    this.file = file;
    this.columns = columns;
    this.hasHashInName = hasHashInName;
    this.rows = 0;
    this.hash = createHash('sha256');
    this.bytes = new ByteWriter();
    /** @type {SchemaElement[]} */
    const schema = [{ name: 'root', num_children: columns.length }];
    for (const { name, type } of columns) {
      schema.push({ name, repetition_type: 'OPTIONAL', ...PARQUET_TYPES[type] });
    }
    this.writer = new ParquetWriter({
      writer: this.bytes,
      schema,
      codec: 'GZIP',
      compressors,
      createdBy: 'holdfast',
    });
  }

  /** @param {readonly (readonly unknown[])[]} columnData a row group, by column */
  append(columnData) {
    const rows = columnData[0]?.length ?? 0;
    const data = this.columns.map(({ name, isUnique }, index) => ({
      name,
      data: /** @type {unknown[]} */ (columnData[index]),
      offsetIndex: false,
      // Nothing repeats in these, so a dictionary would be built in vain.
      ...(isUnique ? { encoding: /** @type {const} */ ('PLAIN') } : {}),
    }));
    if (rows > 0) {
      void this.writer.write({ columnData: data, rowGroupSize: rows });
      this.rows += rows;
      this.flush();
    }
  }

  flush() {
    const chunk = new Uint8Array(this.bytes.buffer, 0, this.bytes.index);
    this.file.write(chunk);
    this.hash.update(chunk);
    this.bytes.index = 0;
  }

  /** @returns {Written} */
  finish() {
    void this.writer.finish();
    this.flush();
    const sha256 = this.hash.digest('hex');
    const { path } = this.file;
    this.file.finish(
      this.hasHashInName ? path.replace(/\.parquet$/, `_${sha256.slice(0, HASH_IN_NAME)}.parquet`) : path,
    );
    return { rows: this.rows, bytes: this.bytes.offset, sha256 };
  }
}

/** @param {string} folder */
export function syncFolder(folder) {
  const descriptor = openSync(folder, 'r');
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/**
 * @template T
 * @param {string} path
 * @param {(file: SafeFile) => T | Promise<T>} work writes the file
 */
export async function orDiscard(path, work) {
  const file = new SafeFile(path);
  try {
    return await work(file);
  } catch (error) {
    file.discard();
    throw error;
  }
}
