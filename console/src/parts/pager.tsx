import { Button } from '@mantine/core';
import { type ReactNode, useEffect, useRef } from 'react';
import type { usePage } from '../api/list';
import { Empty, Failure, Loading } from './states';

/** What usePage returned, the cursor of the page that is shown, and how to go to another one. */
export interface PagerProps {
  readonly page: Pick<
    ReturnType<typeof usePage>,
    'rows' | 'next' | 'error' | 'isPlaceholderData' | 'refetch'
  >;
  readonly cursor: string | undefined;
  readonly go: (cursor: string | undefined) => void;
}

/**
 * A list whose page is in the URL, so that each page has an address and the browser's Back leads to the page before. `children` is the
 * table; `empty` stands in its place if there are no rows at all.
 */
export function PagedList({
  empty,
  children,
  ...pager
}: PagerProps & { readonly empty: ReactNode; readonly children: ReactNode }): ReactNode {
  const { rows, next, error, refetch } = pager.page;
  const top = useRef<HTMLDivElement>(null);
  const shown = useRef(pager.cursor);
  useEffect(() => {
    if (shown.current !== pager.cursor) {
      shown.current = pager.cursor;
      top.current?.scrollIntoView({ block: 'nearest' });
    }
  }, [pager.cursor]);
  if (rows === undefined) {
    return error ? <Failure error={error} retry={() => void refetch()} /> : <Loading height={420} />;
  }
  if (rows.length === 0 && next === undefined && pager.cursor === undefined) {
    return empty;
  }
  return (
    <div aria-busy={pager.page.isPlaceholderData}>
      <div ref={top} />
      {error !== null && <Failure error={error} retry={() => void refetch()} />}
      {rows.length > 0 && children}
      {rows.length === 0 && (
        <Empty title={next === undefined ? 'This is the end of the list' : 'Nothing found so far'}>
          {next === undefined
            ? 'Go back to the first page.'
            : 'So many rows did not match that the search paused. Search on, or narrow the time.'}
        </Empty>
      )}
      <Pager {...pager} />
    </div>
  );
}

function Pager({ page: { rows = [], next, isPlaceholderData }, cursor, go }: PagerProps): ReactNode {
  return (
    <nav className="row foot" aria-label="Pages of the list">
      <span className="muted small num" role="status">
        {rows.length} {rows.length === 1 ? 'row' : 'rows'}
        {next === undefined ? ', the last page' : ' on this page'}
      </span>
      <span className="row">
        {cursor !== undefined && (
          <Button variant="default" size="compact-sm" onClick={() => go(undefined)}>
            First page
          </Button>
        )}
        {next !== undefined && (
          <Button variant="default" size="compact-sm" loading={isPlaceholderData} onClick={() => go(next)}>
            {rows.length === 0 ? 'Search on' : 'Next page'}
          </Button>
        )}
      </span>
    </nav>
  );
}
