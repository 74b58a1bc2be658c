// The thread that writes and reads the archive's Parquet files for src/archive/parquet-thread.ts: it may take long, and a request must not wait for
// it. Plain JavaScript, because it is loaded by its path from the service, its bundle and the tests.
import { createHash, randomBytes } from 'node:crypto';
import {
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { getPriority, setPriority } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { parentPort } from 'node:worker_threads';
import { gunzipSync, gzipSync } from 'node:zlib';
import { parquetMetadata, parquetRead } from 'hyparquet';
import { ByteWriter, ParquetWriter } from 'hyparquet-writer';

/**
 * @typedef {import('../src/archive/parquet-tasks.js').Column} Column
 * @typedef {import('../src/archive/parquet-tasks.js').Cell} Cell
 * @typedef {import('../src/archive/parquet-tasks.js').Task} Task
 * @typedef {import('../src/archive/parquet-tasks.js').Written} Written
 * @typedef {import('hyparquet').SchemaElement} SchemaElement
 */

/** Rows that are in memory at a time, about 1 KB each. They are one row group. */
const ROWS_AT_ONCE = 50_000;

/** @type {Record<Column['type'], Omit<SchemaElement, 'name'>>} */
const PARQUET_TYPES = {
  VARCHAR: { type: 'BYTE_ARRAY', converted_type: 'UTF8' },
  INTEGER: { type: 'INT32' },
  BIGINT: { type: 'INT64' },
  TIMESTAMP: { type: 'INT64', converted_type: 'TIMESTAMP_MILLIS' },
};

/**
 * Cells as messages carry them, in the form of the writer.
 * @type {Record<Column['type'], (cell: Cell) => unknown>}
 */
const TO_PARQUET = {
  VARCHAR: (cell) => cell,
  INTEGER: (cell) => cell,
  BIGINT: (cell) => (cell === null ? null : BigInt(cell)),
  TIMESTAMP: (cell) => (cell === null ? null : new Date(Number(cell))),
};

/** Half the size of snappy at the lowest level, which DuckDB, ClickHouse, Trino and Athena read. Node.js 20 has no zstd. */
const compressors = { GZIP: (/** @type {Uint8Array} */ bytes) => gzipSync(bytes, { level: 1 }) };
const decompressors = { GZIP: (/** @type {Uint8Array} */ bytes) => gunzipSync(bytes) };

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

  finish() {
    fsyncSync(/** @type {number} */ (this.#descriptor));
    this.#close();
    renameSync(this.temporary, this.path);
    syncFolder(dirname(this.path));
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

class ParquetFile {
  /**
   * @param {SafeFile} file
   * @param {readonly Column[]} columns
   */
  constructor(file, columns) {
    this.file = file;
    this.columns = columns;
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
    this.file.finish();
    return { rows: this.rows, bytes: this.bytes.offset, sha256: this.hash.digest('hex') };
  }
}

/** @param {string} folder */
function syncFolder(folder) {
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
async function orDiscard(path, work) {
  const file = new SafeFile(path);
  try {
    return await work(file);
  } catch (error) {
    file.discard();
    throw error;
  }
}

/**
 * The rows of a file, some at a time. A file is read into memory as it is: those in staging have a few MB, a published day a row group after the
 * other.
 * @param {string} path
 * @param {readonly string[]} columns
 */
async function* partsOf(path, columns) {
  const content = readFileSync(path);
  const file = content.buffer.slice(content.byteOffset, content.byteOffset + content.byteLength);
  const metadata = parquetMetadata(file);
  const total = Number(metadata.num_rows);
  // Files of 0.7 lack the last column, which is the epoch.
  const present = columns.filter((column) => metadata.schema.some(({ name }) => name === column));
  for (let start = 0; start < total; start += ROWS_AT_ONCE) {
    /** @type {unknown[][]} */
    let rows = [];
    await parquetRead({
      file,
      metadata,
      columns: present,
      rowStart: start,
      rowEnd: Math.min(total, start + ROWS_AT_ONCE),
      compressors: decompressors,
      onComplete: (found) => (rows = found),
    });
    yield rows;
  }
}

/**
 * The same. What is wrong in a file does not say which file it is; errors of the file system do.
 * @param {string} path
 * @param {readonly string[]} columns
 */
async function* rowsOf(path, columns) {
  try {
    yield* partsOf(path, columns);
  } catch (error) {
    const { code, message } = /** @type {NodeJS.ErrnoException} */ (error);
    throw code === undefined ? new Error(`${path} cannot be read: ${message}`) : error;
  }
}

/** @type {(value: unknown) => string | number} */
const sortable = (value) =>
  value instanceof Date ? value.getTime() : typeof value === 'string' ? value : '';

/** @type {(one: unknown, other: unknown) => number} */
const compare = (one, other) => {
  const [left, right] = [sortable(one), sortable(other)];
  return left === right ? 0 : left < right ? -1 : 1;
};

/**
 * Adds up charges by unit. CORRECTION repeats a charge that another row has.
 * @param {Map<string, Record<'reserved' | 'charged' | 'debt', bigint>>} sums
 * @param {readonly unknown[]} row
 * @param {Record<string, number>} place
 */
function addUp(sums, row, place) {
  const unit = row[/** @type {number} */ (place.unit)];
  if (typeof unit !== 'string' || row[/** @type {number} */ (place.source)] === 'CORRECTION') {
    return;
  }
  const sum = sums.get(unit) ?? { reserved: 0n, charged: 0n, debt: 0n };
  for (const name of /** @type {const} */ (['reserved', 'charged', 'debt'])) {
    sum[name] += /** @type {bigint | undefined} */ (row[/** @type {number} */ (place[name])]) ?? 0n;
  }
  sums.set(unit, sum);
}

/**
 * Tells whether a row was there before, by its place.
 * @param {Record<string, number>} place
 */
function seenBefore(place) {
  const seen = new Set();
  return (/** @type {readonly unknown[]} */ row) => {
    const name = `${String(row[/** @type {number} */ (place.partition)])}|${String(row[/** @type {number} */ (place.entry)])}`;
    const isSeen = seen.has(name);
    seen.add(name);
    return isSeen;
  };
}

/** @param {Map<string, Record<'reserved' | 'charged' | 'debt', bigint>>} sums */
const textsOf = (sums) =>
  [...sums]
    .map(([unit, { reserved, charged, debt }]) => ({
      unit,
      reserved: String(reserved),
      charged: String(charged),
      debt: String(debt),
    }))
    .sort((one, other) => compare(one.unit, other.unit));

const parseJson = /** @type {(text: string) => unknown} */ (JSON.parse);

/** @satisfies {{ [Kind in Task['kind']]: (task: Extract<Task, { kind: Kind }>) => unknown }} */
const TASKS = {
  /** Writes one file. */
  write: ({ path, columns, parts }) =>
    orDiscard(path, (opened) => {
      const file = new ParquetFile(opened, columns);
      const read = /** @type {[number, ...(Cell | Cell[])[]][]} */ (parseJson(`[${parts.join(',')}]`));
      const cellsOf = (/** @type {number} */ index, /** @type {Column['type']} */ type) =>
        read.flatMap(([rows, ...columns]) => {
          const cells = /** @type {Cell | Cell[]} */ (columns[index]);
          return Array.isArray(cells)
            ? cells.map(TO_PARQUET[type])
            : /** @type {unknown[]} */ (Array(rows).fill(TO_PARQUET[type](cells)));
        });
      file.append(columns.map(({ type }, index) => cellsOf(index, type)));
      return file.finish();
    }),

  /** Writes the rows of several files into one, in their order, or each row group sorted. */
  rewrite: ({ path, columns, inputs, sortBy, isUnique = false }) => {
    const names = columns.map(({ name }) => name);
    const order = sortBy.map((name) => names.indexOf(name));
    const place = Object.fromEntries(names.map((name, index) => [name, index]));
    const isSeen = isUnique ? seenBefore(place) : () => false;
    /** @type {Map<string, Record<'reserved' | 'charged' | 'debt', bigint>>} */
    const sums = new Map();
    /** @type {unknown[][]} */
    let rows = [];
    const append = (/** @type {ParquetFile} */ file) => {
      if (order.length > 0) {
        rows.sort((one, other) => {
          const differs = order.find((index) => compare(one[index], other[index]) !== 0);
          return differs === undefined ? 0 : compare(one[differs], other[differs]);
        });
      }
      file.append(names.map((_, index) => rows.map((row) => row[index])));
      rows = [];
    };
    return orDiscard(path, async (opened) => {
      const file = new ParquetFile(opened, columns);
      for (const input of inputs) {
        for await (const part of rowsOf(input, names)) {
          for (const row of part) {
            if (isSeen(row)) {
              continue;
            }
            rows.push(row);
            if (place.unit !== undefined) {
              addUp(sums, row, place);
            }
          }
          if (rows.length >= ROWS_AT_ONCE) {
            append(file);
          }
        }
      }
      append(file);
      const written = file.finish();
      return { ...written, sums: textsOf(sums) };
    });
  },

  /** Writes a text in the same safe way. */
  text: ({ path, text }) =>
    orDiscard(path, (file) => {
      file.write(Buffer.from(text));
      file.finish();
    }),

  sync: ({ path }) => syncFolder(path),

  /** Reads every row: whether any is there twice, and what they add up to. */
  check: async ({ path, columns, spans = [] }) => {
    const place = Object.fromEntries(columns.map((name, index) => [name, index]));
    const sha256 = createHash('sha256').update(readFileSync(path)).digest('hex');
    const isSeen = seenBefore(place);
    /** @type {Map<string, Record<'reserved' | 'charged' | 'debt', bigint>>} */
    const sums = new Map();
    let [rows, doubled] = [0, 0];
    const bySpan = spans.map(() => 0);
    for await (const part of rowsOf(path, columns)) {
      for (const row of part) {
        doubled += isSeen(row) ? 1 : 0;
        rows += 1;
        const ms = Number(sortable(row[/** @type {number} */ (place.recorded_at)]));
        for (const [index, { partition, fromMs, toMs }] of spans.entries()) {
          const isOf = partition === undefined || partition === row[/** @type {number} */ (place.partition)];
          bySpan[index] = (bySpan[index] ?? 0) + (isOf && ms > fromMs && ms <= toMs ? 1 : 0);
        }
        if (place.unit !== undefined) {
          addUp(sums, row, place);
        }
      }
    }
    return { sha256, rows, doubled, bySpan, sums: textsOf(sums) };
  },
};

// Requests come first: against one thread of usual priority, this one gets a quarter of a processor, which is some 5,000 rows a second. Linux has
// a priority for each thread, others only one for the whole process. A process that has a lower one already, as under `nice`, may not raise it.
const NICE = 5;
if (process.platform === 'linux' && getPriority() < NICE) {
  setPriority(NICE);
}

parentPort?.on('message', (/** @type {{ id: number, task: Task }} */ { id, task }) => {
  const run = /** @type {(task: Task) => unknown} */ (TASKS[task.kind]);
  Promise.resolve()
    .then(() => run(task))
    .then(
      (result) => parentPort?.postMessage({ id, result }),
      (/** @type {NodeJS.ErrnoException} */ error) =>
        parentPort?.postMessage({ id, error: { message: error.message, code: error.code } }),
    );
});
