import { Button } from '@mantine/core';
import { type ReactNode, useEffect, useRef } from 'react';
import type { GrowingList } from '../api/list';
import { Failure } from './states';

/** How far below the window the end of a list may be for the next page to be read. */
const NEAR_PX = 600;
const COUNT = new Intl.NumberFormat();

/** The foot of a list that is read page by page: by itself when it comes into sight, or with the button. */
export function MoreRows({
  list,
  shown,
}: {
  list: Omit<GrowingList<unknown>, 'rows'>;
  shown: number;
}): ReactNode {
  const { error, hasNextPage, isFetchingNextPage, fetchNextPage } = list;
  const foot = useRef<HTMLDivElement>(null);
  const mayRead = hasNextPage && !isFetchingNextPage && error === null;
  useEffect(() => {
    if (!mayRead || foot.current === null) {
      return undefined;
    }
    const observer = new IntersectionObserver(
      (entries) => entries.at(-1)?.isIntersecting === true && void fetchNextPage(),
      { rootMargin: `${NEAR_PX}px 0px` },
    );
    observer.observe(foot.current);
    return () => observer.disconnect();
  }, [mayRead, fetchNextPage]);
  return (
    <div ref={foot}>
      {error !== null && (
        <Failure error={error} retry={() => void (hasNextPage ? fetchNextPage() : list.refetch())} />
      )}
      <div className="row foot">
        <span className="muted small num" role="status">
          {COUNT.format(shown)} {shown === 1 ? 'row' : 'rows'}
          {hasNextPage ? ', more to come' : ''}
        </span>
        {hasNextPage && (
          <Button
            variant="default"
            size="compact-sm"
            loading={isFetchingNextPage}
            onClick={() => void fetchNextPage()}
          >
            Show more
          </Button>
        )}
      </div>
    </div>
  );
}
