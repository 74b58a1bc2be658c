import { useQuery, type UseQueryResult } from '@tanstack/react-query';
import { get } from './client';
import type { Int64 } from './json';

/** AdminOverviewResponse of the API, as far as pages use it. */
export interface OverviewAnswer {
  readonly tenant_counts: { readonly total: number };
  readonly held_by_unit: Readonly<Record<string, Int64>>;
  readonly webhook_counts: { readonly disabled: number };
  readonly failing_webhooks: readonly {
    readonly subscription_id: string;
    readonly url: string;
    readonly consecutive_failures: number;
    readonly last_failure_at?: string;
  }[];
}

const EVERY_MS = 10_000;

/** The counts of the whole deployment. Large ones are counted in the background, so they may be some seconds old. */
export function useOverview(): UseQueryResult<OverviewAnswer> {
  return useQuery({
    queryKey: ['overview'],
    queryFn: () => get<OverviewAnswer>('/v1/admin/overview'),
    refetchInterval: EVERY_MS,
  });
}
