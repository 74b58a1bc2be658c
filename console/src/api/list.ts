import { type UseInfiniteQueryResult, useInfiniteQuery } from '@tanstack/react-query';
import { get, type Query } from './client';

interface Page {
  readonly has_more: boolean;
  readonly next_cursor?: string;
}

const PAGE_ROWS = 100;
/** With more pages than this, a list is not read again by itself. */
const MAX_PAGES_AGAIN = 3;

/** A list of the API, page by page. `rows` picks the rows of a page; `query` has the filters, from the URL. With `everyMs`, short lists follow changes. */
export function useList<Answer extends Page, Row>(
  path: string,
  query: Query,
  rows: (answer: Answer) => readonly Row[],
  {
    enabled = true,
    limit = PAGE_ROWS,
    everyMs = false,
  }: { enabled?: boolean; limit?: number; everyMs?: number | false } = {},
): Omit<UseInfiniteQueryResult<Row[]>, 'data'> & { readonly rows: Row[] | undefined } {
  const { data, ...rest } = useInfiniteQuery({
    queryKey: [path, 'list', query, limit],
    queryFn: ({ pageParam }) => get<Answer>(path, { ...query, limit, cursor: pageParam }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ has_more: hasMore, next_cursor: next }) => (hasMore ? next : undefined),
    select: ({ pages }) => pages.flatMap((page) => rows(page)),
    enabled,
    // Each read asks for all pages again.
    refetchInterval: ({ state }) => ((state.data?.pages.length ?? 0) <= MAX_PAGES_AGAIN ? everyMs : false),
  });
  return { ...rest, rows: data };
}
