import { useInfiniteQuery } from '@tanstack/react-query';
import { useEffect } from 'react';
import { get } from '../../api/client';
import type { Parameters, Schema } from '../../api/operations';

export interface Counts {
  /** By the start of their slot, ms. */
  readonly slots: ReadonlyMap<number, number>;
  readonly total: number;
  /** Below 1, the server has not read all partitions yet, and the counts still grow. */
  readonly shareRead: number;
}

function sumOf(pages: readonly Schema<'ExpirationCountsResponse'>[]): Counts {
  const slots = new Map<number, number>();
  for (const { at_ms: atMs, expirations } of pages.flatMap((page) => page.slots)) {
    slots.set(atMs, (slots.get(atMs) ?? 0) + expirations);
  }
  const total = [...slots.values()].reduce((sum, count) => sum + count, 0);
  return { slots, total, shareRead: pages.at(-1)?.share_read ?? 0 };
}

/** The counts of a window. One request reads a bounded part of the log, so this asks on until all is read. */
export function useCounts(query: Parameters<'get', '/ops/expirations/counts'>): {
  readonly counts: Counts | undefined;
  readonly error: Error | null;
  readonly retry: () => void;
} {
  const { data, error, hasNextPage, isFetching, fetchNextPage, refetch } = useInfiniteQuery({
    queryKey: ['/ops/expirations/counts', query],
    queryFn: ({ pageParam }) => get('/ops/expirations/counts', { ...query, cursor: pageParam }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ has_more: hasMore, next_cursor: next }) => (hasMore ? next : undefined),
    select: ({ pages }) => sumOf(pages),
    refetchOnWindowFocus: false,
  });
  useEffect(() => {
    if (hasNextPage && !isFetching && error === null) {
      void fetchNextPage();
    }
  }, [hasNextPage, isFetching, error, fetchNextPage]);
  return { counts: data, error, retry: () => void (data === undefined ? refetch() : fetchNextPage()) };
}
