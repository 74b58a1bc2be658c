import type { ReactNode } from 'react';
import type { GrowingList } from '../api/list';
import { MoreRows } from './more-rows';
import { Failure, Loading } from './states';

/** What useQuery returned. */
interface Reading<Answer> {
  readonly data: Answer | undefined;
  readonly error: Error | null;
  readonly refetch: () => Promise<unknown>;
}

/** What a query has read. Until then its failure, or the place that it will take. */
export function Loaded<Answer>({
  query: { data, error, refetch },
  height = 120,
  children,
}: {
  query: Reading<Answer>;
  height?: number;
  children: (answer: Answer) => ReactNode;
}): ReactNode {
  if (data !== undefined) {
    return children(data);
  }
  return error === null ? (
    <Loading height={height} />
  ) : (
    <Failure error={error} retry={() => void refetch()} />
  );
}

/** A list that grows as its end comes into sight. `empty` stands in the place of a list without rows. */
export function Listing<Row>({
  list,
  height = 300,
  empty,
  children,
}: {
  /** What useList returned. */
  list: GrowingList<Row>;
  height?: number;
  empty: ReactNode;
  children: (rows: readonly Row[]) => ReactNode;
}): ReactNode {
  const { rows, error, refetch, hasNextPage } = list;
  return (
    <Loaded query={{ data: rows, error, refetch }} height={height}>
      {(read) =>
        // A page whose filters match few rows ends early: without rows, there may still be more.
        read.length === 0 && !hasNextPage ? (
          empty
        ) : (
          <>
            {read.length > 0 && children(read)}
            <MoreRows list={list} shown={read.length} />
          </>
        )
      }
    </Loaded>
  );
}
