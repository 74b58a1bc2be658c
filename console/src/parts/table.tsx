import {
  type KeyboardEvent,
  type ReactElement,
  type ReactNode,
  type RefObject,
  useEffect,
  useRef,
  useState,
} from 'react';

/**
 * The head of a column: its name, with its cells on the left, or on the right, or for screen readers only; or of one that narrow screens
 * leave out, whose cells have the class `wide-only`.
 */
export type Column =
  string | { readonly right: string } | { readonly hidden: string } | { readonly wide: string };

/** Tables of more rows than two blocks keep only those in the document that are near the window. */
const BLOCK_ROWS = 100;
const NEAR_PX = 1500;

/** A table that scrolls by itself where it is wider than its place. `children` makes the row of an item, with its key. */
export function Table<Item>({
  label,
  columns,
  items,
  children,
}: {
  label: string;
  columns: readonly Column[];
  items: readonly Item[];
  children: (item: Item, index: number) => ReactElement;
}): ReactNode {
  const isLong = items.length > 2 * BLOCK_ROWS;
  const head = useSteadyWidths(isLong);
  return (
    <div className="table-wrap" role="region" aria-label={label} tabIndex={0} onKeyDown={moveByArrow}>
      <table className="table" {...(isLong ? { 'aria-rowcount': items.length + 1 } : {})}>
        <thead>
          <tr ref={head}>
            {columns.map((column) => (
              <Head key={nameOf(column)} column={column} />
            ))}
          </tr>
        </thead>
        {isLong ? (
          blocksOf(items).map((block, index) => (
            <Block key={index} columns={columns.length}>
              {() => block.map((item, row) => children(item, index * BLOCK_ROWS + row))}
            </Block>
          ))
        ) : (
          <tbody>{items.map(children)}</tbody>
        )}
      </table>
    </div>
  );
}

/** The arrows up and down lead from row to row, to the first of what each leads to; Enter opens that, as it does everywhere. */
function moveByArrow(event: KeyboardEvent<HTMLElement>): void {
  const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
  if (step === 0 || (event.target as Element).matches('input, select, textarea')) {
    return;
  }
  const rows = [...event.currentTarget.querySelectorAll('tbody tr')].filter(
    (row) => row.querySelector('a, button') !== null,
  );
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const next = at < 0 && step < 0 ? rows.at(-1) : rows[at + step];
  if (next !== undefined) {
    event.preventDefault();
    next.querySelector<HTMLElement>('a, button')?.focus();
  }
}

function nameOf(column: Column): string {
  return typeof column === 'string' ? column : (Object.values(column)[0] as string);
}

function Head({ column }: { column: Column }): ReactNode {
  if (typeof column === 'string') {
    return <th>{column}</th>;
  }
  if ('wide' in column) {
    return <th className="wide-only">{column.wide}</th>;
  }
  return 'right' in column ? (
    <th className="right">{column.right}</th>
  ) : (
    <th>
      <span className="visually-hidden">{column.hidden}</span>
    </th>
  );
}

function blocksOf<Item>(items: readonly Item[]): (readonly Item[])[] {
  return Array.from({ length: Math.ceil(items.length / BLOCK_ROWS) }, (_, index) =>
    items.slice(index * BLOCK_ROWS, (index + 1) * BLOCK_ROWS),
  );
}

/** Rows that are replaced by one of their height while they are far from the window. */
function Block({ columns, children }: { columns: number; children: () => ReactNode }): ReactNode {
  const body = useRef<HTMLTableSectionElement>(null);
  const [height, setHeight] = useState<number>();
  useEffect(() => {
    const observer = new IntersectionObserver(
      (entries) => {
        const entry = entries.at(-1);
        setHeight(entry?.isIntersecting === false ? entry.boundingClientRect.height : undefined);
      },
      { rootMargin: `${NEAR_PX}px 0px` },
    );
    if (body.current !== null) {
      observer.observe(body.current);
    }
    return () => observer.disconnect();
  }, []);
  return (
    <tbody ref={body}>
      {height === undefined ? (
        children()
      ) : (
        <tr aria-hidden="true">
          <td colSpan={columns} style={{ height, padding: 0 }} />
        </tr>
      )}
    </tbody>
  );
}

/** Keeps the widths of all columns but the first, which otherwise follow the rows that happen to be in the document. */
function useSteadyWidths(isLong: boolean): RefObject<HTMLTableRowElement | null> {
  const head = useRef<HTMLTableRowElement>(null);
  useEffect(() => {
    if (!isLong) {
      return undefined;
    }
    const settle = (): void => {
      const cells = [...(head.current?.cells ?? [])].slice(1);
      cells.forEach((cell) => (cell.style.width = ''));
      const widths = cells.map((cell) => cell.getBoundingClientRect().width);
      cells.forEach((cell, index) => {
        cell.style.boxSizing = 'border-box';
        cell.style.width = `${widths[index] ?? 0}px`;
      });
    };
    settle();
    window.addEventListener('resize', settle);
    return () => window.removeEventListener('resize', settle);
  }, [isLong]);
  return head;
}
