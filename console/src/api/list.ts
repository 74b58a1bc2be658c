import {
  keepPreviousData,
  type UseInfiniteQueryResult,
  useInfiniteQuery,
  useQuery,
  type UseQueryResult,
} from '@tanstack/react-query';
import { useMemo } from 'react';
import { getPage } from './client';
import type { Answer, ListPath, Parameters } from './operations';
import { serverMsOf } from './server-time';

/** The rows of all pages that were read, and how to read more. parts/more-rows.tsx shows what stands below them. */
export interface GrowingList<Row> extends Pick<
  UseInfiniteQueryResult,
  'error' | 'hasNextPage' | 'isFetchingNextPage' | 'fetchNextPage' | 'refetch'
> {
  readonly rows: readonly Row[] | undefined;
  /** When the last page was read, by the service's time. */
  readonly readAtMs: number | undefined;
  /** How many rows pages looked at that too few matched to fill. */
  readonly examined: number;
}

const PAGE_ROWS = 100;
/** With more pages than this, a list is not read again by itself. */
const MAX_PAGES_AGAIN = 3;

/** A list of the API, page by page. `rows` picks the rows of a page; `query` has the filters, from the URL. With `everyMs`, short lists follow changes. */
export function useList<P extends ListPath, Row>(
  path: P,
  query: Parameters<'get', P>,
  rows: (answer: Answer<'get', P>) => readonly Row[],
  {
    enabled = true,
    limit = PAGE_ROWS,
    everyMs = false,
  }: { enabled?: boolean; limit?: number; everyMs?: number | false } = {},
): GrowingList<Row> {
  const { data, ...rest } = useInfiniteQuery({
    queryKey: [path, 'list', query, limit],
    queryFn: ({ pageParam }) => getPage(path, { ...query, limit, cursor: pageParam }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ next }) => next,
    enabled,
    // Each read asks for all pages again.
    refetchInterval: ({ state }) => ((state.data?.pages.length ?? 0) <= MAX_PAGES_AGAIN ? everyMs : false),
    refetchOnWindowFocus: ({ state }) => (state.data?.pages.length ?? 0) <= MAX_PAGES_AGAIN,
  });
  const all = useMemo(() => data?.pages.flatMap(({ answer }) => rows(answer)), [data]);
  const examined = data?.pages.reduce((sum, page) => sum + page.examined, 0) ?? 0;
  const readAtMs = all && serverMsOf(rest.dataUpdatedAt);
  return { ...rest, rows: all, readAtMs, examined };
}

/** One page of a list, by its cursor. While another page loads, the one before stays. parts/pager.tsx shows it. */
export function usePage<P extends ListPath, Row>(
  path: P,
  query: Parameters<'get', P>,
  rows: (answer: Answer<'get', P>) => readonly Row[],
  { cursor, limit = PAGE_ROWS }: { cursor: string | undefined; limit?: number },
): Omit<UseQueryResult, 'data'> & {
  readonly rows: readonly Row[] | undefined;
  /** The cursor of the next page; undefined on the last one. */
  readonly next: string | undefined;
} {
  const { data, ...rest } = useQuery({
    queryKey: [path, 'page', query, cursor, limit],
    queryFn: () => getPage(path, { ...query, limit, cursor }),
    placeholderData: keepPreviousData,
  });
  return {
    ...rest,
    rows: data && rows(data.answer),
    next: data?.next,
  };
}
