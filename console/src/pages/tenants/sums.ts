import { useQueries, useQuery } from '@tanstack/react-query';
import { DAY_MS } from '../../../../src/ledger/time';
import { get } from '../../api/client';
import type { Schema } from '../../api/operations';
import { serverNowMs } from '../../api/server-time';
import { isWhole } from '../usage/incomplete';
import { MOST_ROWS, USAGE, type UsageReport } from '../usage/usage';

const EVERY_MS = 10_000;
/** The ids of a request are in its address. */
const A_REQUEST = 50;
const DAYS = 30;
/** A report of a month reads many files. */
const REPORT_EVERY_MS = 5 * 60_000;

/** Stands for what is not read yet; a dash for nothing. */
export const NOT_READ = '…';

export type Sums = Schema<'TenantSumsResponse'>['tenants'][number]['sums'];

/** What tenants have in all, as far as it is read, and when it was counted. */
export function useTenantSums(ids: readonly string[]): {
  readonly of: (tenantId: string) => Sums | undefined;
  readonly asOf: string | undefined;
  /** Why some could not be read. */
  readonly error: Error | null;
  readonly refetch: () => Promise<unknown>;
} {
  const groups = Array.from({ length: Math.ceil(ids.length / A_REQUEST) }, (_, index) =>
    ids.slice(index * A_REQUEST, (index + 1) * A_REQUEST).join(','),
  );
  const queries = useQueries({
    queries: groups.map((group) => ({
      queryKey: ['/ops/tenant-sums', group],
      queryFn: () => get('/ops/tenant-sums', { tenant_ids: group }),
      refetchInterval: EVERY_MS,
    })),
  });
  const answers = queries.flatMap(({ data }) => (data === undefined ? [] : [data]));
  const sums = new Map(answers.flatMap(({ tenants }) => tenants.map((row) => [row.tenant_id, row.sums])));
  // The oldest: no sum is older than it says.
  const [asOf] = answers.map((answer) => answer.as_of).sort();
  const failed = queries.filter(({ data, error }) => data === undefined && error !== null);
  return {
    of: (tenantId) => sums.get(tenantId),
    asOf,
    error: failed[0]?.error ?? null,
    refetch: () => Promise.all(failed.map(({ refetch }) => refetch())),
  };
}

type Charged = readonly { readonly unit: string; readonly charged: bigint }[];

/** What tenants were charged in a month, and the report that says so. */
export interface Month {
  readonly of: (tenantId: string) => Charged;
  readonly report: UsageReport;
  readonly from: string;
  readonly to: string;
}

/** Stands for no charge: a dash only if there was none. */
export function nothingIn(month: Month | null | undefined): string {
  if (month === undefined) {
    return NOT_READ;
  }
  const isKnown = month !== null && !month.report.has_more && isWhole(month.report, month.from, month.to);
  return isKnown ? '–' : 'not known';
}

/** What each tenant, or one, was charged in the last 30 days, from the archive. Undefined until it is read, null where it cannot be. */
export function useMonthOfTenants(only?: string): Month | null | undefined {
  const { data, isError } = useQuery({
    queryKey: [USAGE, 'month of tenants', only],
    queryFn: async () => {
      const now = serverNowMs();
      const from = new Date(now - DAYS * DAY_MS).toISOString();
      const to = new Date(now).toISOString();
      const report = await get(USAGE, {
        from,
        to,
        group_by: 'tenant',
        order: '-charged',
        limit: MOST_ROWS,
        tenant_id: only,
      });
      const charged = new Map<string, { unit: string; charged: bigint }[]>();
      for (const { tenant = '', unit, charged: amount } of report.rows) {
        charged.set(tenant, [...(charged.get(tenant) ?? []), { unit, charged: BigInt(amount) }]);
      }
      return { charged, report, from, to };
    },
    refetchInterval: REPORT_EVERY_MS,
    retry: false,
  });
  if (data === undefined) {
    return isError ? null : undefined;
  }
  return { ...data, of: (tenantId) => data.charged.get(tenantId) ?? [] };
}
