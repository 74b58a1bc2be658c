import { useQuery, type UseQueryResult } from '@tanstack/react-query';
import { get } from './client';
import type { Schema } from './operations';
import { useSession } from './session';

const EVERY_MS = 10_000;

/** The counts of the whole deployment. Large ones are counted in the background, so they may be some seconds old. Operators of some tenants do not get them. */
export function useOverview(): UseQueryResult<Schema<'AdminOverviewResponse'>> {
  const isOfAll = useSession().session?.tenants === undefined;
  return useQuery({
    queryKey: ['overview'],
    enabled: isOfAll,
    queryFn: () => get('/v1/admin/overview', {}),
    refetchInterval: EVERY_MS,
  });
}
