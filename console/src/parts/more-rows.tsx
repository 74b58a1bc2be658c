import { Button } from '@mantine/core';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import type { GrowingList } from '../api/list';
import { COUNT } from './numbers';
import { Failure } from './states';

/** How far below the window the end of a list may be for the next page to be read. */
const NEAR_PX = 600;
/** After looking at so many rows that did not match, the search waits for the reader. */
const PAUSE_AFTER = 200_000;

/**
 * The foot of a list that is read page by page: by itself when it comes into sight, or with the button. Where few rows match, it shows
 * how far the search has come.
 */
export function MoreRows({
  list,
  shown,
}: {
  list: Omit<GrowingList<unknown>, 'rows'>;
  shown: number;
}): ReactNode {
  const { error, hasNextPage, isFetchingNextPage, fetchNextPage, examined } = list;
  const foot = useRef<HTMLDivElement>(null);
  const [pauseAt, setPauseAt] = useState(PAUSE_AFTER);
  const isPaused = examined >= pauseAt;
  const mayRead = hasNextPage && !isFetchingNextPage && error === null && !isPaused;
  useEffect(() => {
    // Another search begins.
    if (examined === 0) {
      setPauseAt(PAUSE_AFTER);
    }
  }, [examined]);
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
          {examined > 0 && `, ${COUNT.format(examined)} looked at`}
          {hasNextPage ? (isPaused ? ', not all yet' : ', more to come') : ''}
        </span>
        {hasNextPage && (
          <Button
            variant="default"
            size="compact-sm"
            loading={isFetchingNextPage}
            onClick={() => {
              setPauseAt(examined + PAUSE_AFTER);
              void fetchNextPage();
            }}
          >
            {examined > 0 ? 'Search on' : 'Show more'}
          </Button>
        )}
      </div>
    </div>
  );
}
