import { Button } from '@mantine/core';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import { csvCell } from '../../../src/wire/csv';
import { ApiError, getPage } from '../api/client';
import { stringifyJson } from '../api/json';
import type { Answer, ListPath, Parameters } from '../api/operations';
import { Progress } from './progress';
import { Failure } from './states';

type Members = Readonly<Record<string, unknown>>;
export type Format = 'csv' | 'ndjson';

const PAUSE_MS = 2000;
const TRIES = 10;

function plainText(value: unknown): string | undefined {
  return value === undefined || value === null
    ? undefined
    : typeof value === 'string'
      ? value
      : stringifyJson(value);
}

export interface Export<P extends ListPath> {
  readonly path: P;
  readonly query: Parameters<'get', P>;
  readonly limit: number;
  readonly rows: (answer: Answer<'get', P>) => readonly object[];
  /** The columns of the CSV. */
  readonly columns: readonly string[];
}

function lineOf({ columns }: Pick<Export<ListPath>, 'columns'>, format: Format, row: Members): string {
  return format === 'csv'
    ? `${columns.map((column) => csvCell(plainText(row[column]))).join(',')}\r\n`
    : `${stringifyJson(row)}\n`;
}

/** Reads one page. While many others ask, it waits for its turn. */
async function pageOf<P extends ListPath>(
  path: P,
  query: Parameters<'get', P>,
  isGone: () => boolean,
): ReturnType<typeof getPage<P>> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await getPage(path, query);
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 429 || tries === TRIES || isGone()) {
        throw error;
      }
      await new Promise((resolve) => window.setTimeout(resolve, PAUSE_MS));
    }
  }
}

function save(parts: readonly Blob[], name: string, format: Format): void {
  const type = format === 'csv' ? 'text/csv;charset=utf-8' : 'application/x-ndjson';
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([...parts], { type }));
  link.download = `${name}.${format}`;
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(link.href), PAUSE_MS);
}

/** Buttons that read a whole list page by page and save it as a file. `of` is how many rows it has, where that is known. */
export function Exporter<P extends ListPath>({
  what,
  name,
  of,
}: {
  what: Export<P>;
  name: string;
  of: number | undefined;
}): ReactNode {
  const [done, setDone] = useState<number>();
  const [failure, setFailure] = useState<Error>();
  const run = useRef(0);
  // Whoever leaves the page does not wait for its file.
  useEffect(() => () => void (run.current += 1), []);

  const start = async (format: Format): Promise<void> => {
    const own = (run.current += 1);
    const isGone = (): boolean => run.current !== own;
    // A Blob a page, which the browser may keep on its disk.
    const parts = format === 'csv' ? [new Blob([`${what.columns.join(',')}\r\n`])] : [];
    let [rows, cursor] = [0, undefined as string | undefined];
    setFailure(undefined);
    setDone(0);
    try {
      do {
        const query = { ...what.query, limit: what.limit, cursor };
        const page = await pageOf(what.path, query, isGone);
        if (isGone()) {
          return;
        }
        const found = what.rows(page.answer);
        parts.push(new Blob(found.map((row) => lineOf(what, format, row as Members))));
        rows += found.length;
        setDone(rows);
        cursor = page.next;
      } while (cursor !== undefined);
      save(parts, name, format);
      setDone(undefined);
    } catch (error) {
      if (!isGone()) {
        setFailure(error as Error);
        setDone(undefined);
      }
    }
  };
  const cancel = (): void => {
    run.current += 1;
    setDone(undefined);
  };

  if (done !== undefined) {
    return (
      <div className="exporter">
        <Progress label="Export" done={done} of={of} unit="rows">
          <Button variant="default" size="compact-sm" onClick={cancel}>
            Cancel
          </Button>
        </Progress>
      </div>
    );
  }
  return (
    <div className="exporter row">
      {failure !== undefined && <Failure error={failure} />}
      <Button variant="default" size="compact-sm" onClick={() => void start('csv')}>
        Export CSV
      </Button>
      <Button variant="default" size="compact-sm" onClick={() => void start('ndjson')}>
        Export NDJSON
      </Button>
    </div>
  );
}
