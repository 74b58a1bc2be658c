import type { ColumnType } from './charge-columns.js';

/** What archive-thread.mjs does. */
export interface Column {
  readonly name: string;
  readonly type: ColumnType;
  /** Whether few values repeat. */
  readonly isUnique?: boolean;
}

/** A BIGINT is a decimal text, a TIMESTAMP its milliseconds. */
export type Cell = string | number | null;

/**
 * Rows as one text, which reaches the thread as a copy of its bytes. Cell by cell, a file of 20,000 rows held up the event loop for 200 ms.
 * A JSON array: how many rows, and for each column its cells, or the one cell that all rows have.
 */
export type RowsText = string;

export function rowsText(columns: readonly Column[], rows: readonly (readonly Cell[])[]): RowsText {
  const cells = columns.map((_, index) => {
    const first = rows[0]?.[index] ?? null;
    return rows.every((row) => row[index] === first) ? first : rows.map((row) => row[index] ?? null);
  });
  return JSON.stringify([rows.length, ...cells]);
}

export interface WriteTask {
  readonly kind: 'write';
  readonly path: string;
  readonly hasHashInName?: boolean;
  readonly columns: readonly Column[];
  readonly parts: readonly RowsText[];
}

export interface RewriteTask {
  readonly kind: 'rewrite';
  readonly path: string;
  readonly hasHashInName?: boolean;
  readonly columns: readonly Column[];
  readonly inputs: readonly string[];
  /** Columns by which each row group is sorted. Empty: the order of the inputs is kept. */
  readonly sortBy: readonly string[];
  /** Whether a row that an earlier input has is left out. All places are in memory then. */
  readonly isUnique?: boolean;
}

export interface TextTask {
  readonly kind: 'text';
  readonly path: string;
  readonly text: string;
}

/** Makes the names in a folder safe on its disk. */
export interface SyncTask {
  readonly kind: 'sync';
  readonly path: string;
}

/** Reads a file as bytes. Its result is the SHA-256 in hex. */
export interface HashTask {
  readonly kind: 'hash';
  readonly path: string;
}

export interface CheckTask {
  readonly kind: 'check';
  readonly path: string;
  /** The SHA-256 that it should have, or its beginning. If it has another, it is not parsed. */
  readonly sha256?: string;
  readonly columns: readonly Column[];
  /** Rows are counted in each of these, after `fromMs` up to `toMs`; without a partition, of all of them. */
  readonly spans?: readonly { readonly partition?: number; readonly fromMs: number; readonly toMs: number }[];
}

export type Task = WriteTask | RewriteTask | TextTask | SyncTask | HashTask | CheckTask;

/** Sums of the rows of a published file in one unit, CORRECTION left out, as decimal text. */
export interface UnitSums {
  readonly unit: string;
  readonly reserved: string;
  readonly charged: string;
  readonly debt: string;
}

export interface Written {
  readonly rows: number;
  readonly bytes: number;
  readonly sha256: string;
}

export interface Rewritten extends Written {
  readonly sums: readonly UnitSums[];
}

export interface Checked {
  readonly sha256: string;
  readonly rows: number;
  /** Rows whose partition and entry an earlier row has. */
  readonly doubled: number;
  readonly bySpan: readonly number[];
  readonly sums: readonly UnitSums[];
}

export type ResultOf<T extends Task> = T extends RewriteTask
  ? Rewritten
  : T extends WriteTask
    ? Written
    : T extends CheckTask
      ? Checked
      : T extends HashTask
        ? string
        : undefined;
