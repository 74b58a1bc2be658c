import { useQuery, type UseQueryResult } from '@tanstack/react-query';
import { get } from './client';
import type { Schema } from './operations';

const EVERY_MS = 10_000;

/** The counts of the whole deployment. Large ones are counted in the background, so they may be some seconds old. */
export function useOverview(): UseQueryResult<Schema<'AdminOverviewResponse'>> {
  return useQuery({
    queryKey: ['overview'],
    queryFn: () => get('/v1/admin/overview', {}),
    refetchInterval: EVERY_MS,
  });
}
