// The thread that writes and reads the archive's Parquet files for parquet-thread.ts: it may take long, and a request must not wait for
// it. Plain JavaScript, because it is loaded by its path from the service, its bundle and the tests.
import { createHash } from 'node:crypto';
import { closeSync, openSync, readFileSync, readSync } from 'node:fs';
import { getPriority, setPriority } from 'node:os';
import { parentPort } from 'node:worker_threads';
import { gunzipSync } from 'node:zlib';
import { parquetMetadata, parquetRead } from 'hyparquet';
import { orDiscard, ParquetFile, syncFolder } from './archive-files.mjs';

/**
 * @typedef {import('./parquet-tasks.js').Column} Column
 * @typedef {import('./parquet-tasks.js').Cell} Cell
 * @typedef {import('./parquet-tasks.js').Task} Task
 */

/** @param {{ reading: string | null } | { result: unknown } | { error: object }} message */
const say = (message) => parentPort?.postMessage(message);

const CHUNK_BYTES = 1 << 22;
/** Rows that are in memory at a time, about 1 KB each. They are one row group. */
const ROWS_AT_ONCE = 50_000;

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

/**
 * What the reader makes of them again. A changed byte can also change the type of a column, or how many rows there are.
 * @type {Record<Column['type'], (cell: unknown) => boolean>}
 */
const IS_OF_TYPE = {
  VARCHAR: (cell) => typeof cell === 'string',
  INTEGER: (cell) => typeof cell === 'number',
  BIGINT: (cell) => typeof cell === 'bigint',
  TIMESTAMP: (cell) => cell instanceof Date,
};

const decompressors = { GZIP: (/** @type {Uint8Array} */ bytes) => gunzipSync(bytes) };

/**
 * The rows of a file, some at a time. A file is read into memory as it is: those in staging have a few MB, a published day a row group after the
 * other.
 * @param {string} path
 * @param {readonly Column[]} columns
 */
async function* partsOf(path, columns) {
  const content = readFileSync(path);
  const file = content.buffer.slice(content.byteOffset, content.byteOffset + content.byteLength);
  const metadata = parquetMetadata(file);
  const total = Number(metadata.num_rows);
  if (total !== metadata.row_groups.reduce((sum, { num_rows: rows }) => sum + Number(rows), 0)) {
    throw new Error('its parts have not as many rows as it says');
  }
  // Files of 0.7 lack the last columns, from the epoch on. The schema begins with the row itself.
  const present = columns.slice(
    0,
    Math.max(
      metadata.schema.length - 1,
      columns.findIndex(({ name }) => name === 'epoch'),
    ),
  );
  for (let start = 0; start < total; start += ROWS_AT_ONCE) {
    /** @type {unknown[][]} */
    let rows = [];
    await parquetRead({
      file,
      metadata,
      columns: present.map(({ name }) => name),
      rowStart: start,
      rowEnd: Math.min(total, start + ROWS_AT_ONCE),
      compressors: decompressors,
      onComplete: (found) => (rows = found),
    });
    const isWhole = rows.length === Math.min(total - start, ROWS_AT_ONCE);
    const isOfType = (/** @type {unknown[]} */ row) =>
      columns.every(
        ({ type }, index) => (row[index] ?? undefined) === undefined || IS_OF_TYPE[type](row[index]),
      );
    if (!isWhole || !rows.every(isOfType)) {
      throw new Error('it has not the rows that it says');
    }
    yield rows;
  }
}

/**
 * The same. What is wrong in a file does not say which file it is; errors of the file system do. Each part is a step.
 * @param {string} path
 * @param {readonly Column[]} columns
 */
async function* rowsOf(path, columns) {
  try {
    say({ reading: path });
    for await (const part of partsOf(path, columns)) {
      say({ reading: null });
      yield part;
      say({ reading: path });
    }
    say({ reading: null });
  } catch (error) {
    throw /** @type {NodeJS.ErrnoException} */ (error).syscall === undefined
      ? Object.assign(/** @type {Error} */ (error), { damaged: path })
      : error;
  }
}

/** @param {string} path */
function hashOf(path) {
  const hash = createHash('sha256');
  const chunk = Buffer.alloc(CHUNK_BYTES);
  const descriptor = openSync(path, 'r');
  try {
    for (let read = readSync(descriptor, chunk); read > 0; read = readSync(descriptor, chunk)) {
      hash.update(chunk.subarray(0, read));
      say({ reading: path });
    }
  } finally {
    closeSync(descriptor);
  }
  return hash.digest('hex');
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
  write: ({ path, columns, parts, hasHashInName }) =>
    orDiscard(path, (opened) => {
      const file = new ParquetFile(opened, columns, hasHashInName);
      const read = /** @type {[number, ...(Cell | Cell[])[]][]} */ (parseJson(`[${parts.join(',')}]`));
      const cellsOf = (/** @type {number} */ index, /** @type {Column['type']} */ type) => {
        /** @type {unknown[]} */
        const found = [];
        for (const part of read) {
          const cells = /** @type {Cell | Cell[]} */ (part[index + 1]);
          for (let row = 0; row < part[0]; row += 1) {
            found.push(TO_PARQUET[type](Array.isArray(cells) ? (cells[row] ?? null) : cells));
          }
        }
        return found;
      };
      file.append(columns.map(({ type }, index) => cellsOf(index, type)));
      return file.finish();
    }),

  /** Writes the rows of several files into one, in their order, or each row group sorted. */
  rewrite: ({ path, columns, inputs, sortBy, isUnique = false, hasHashInName }) => {
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
      const file = new ParquetFile(opened, columns, hasHashInName);
      for (const input of inputs) {
        for await (const part of rowsOf(input, columns)) {
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

  /** Whether a file is what it was, without reading it as Parquet. */
  hash: ({ path }) => hashOf(path),

  /** Reads every row: whether any is there twice, and what they add up to. */
  check: async ({ path, columns, sha256: expected = '', spans = [] }) => {
    const place = Object.fromEntries(columns.map(({ name }, index) => [name, index]));
    const sha256 = hashOf(path);
    if (!sha256.startsWith(expected)) {
      throw Object.assign(new Error('its SHA-256 is another one'), { damaged: path });
    }
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

parentPort?.on('message', (/** @type {Task} */ task) => {
  const run = /** @type {(task: Task) => unknown} */ (TASKS[task.kind]);
  Promise.resolve()
    .then(() => run(task))
    .then(
      (result) => say({ result }),
      (/** @type {NodeJS.ErrnoException & { damaged?: string }} */ { message, code, damaged }) =>
        say({ error: { message, code, damaged } }),
    );
});
