import { get, type Query } from '../../api/client';
import type { Page } from '../../api/list';

/** TenantLimits of the API: what a tenant has, and how much of it it may have. 0 means no limit. */
export interface TenantLimits {
  readonly limits: Readonly<
    Record<
      'live_reservations' | 'budgets' | 'policies' | 'api_keys' | 'webhooks' | 'stored_bytes',
      { readonly limit: number; readonly used: number }
    >
  >;
}

export const API_KEYS = '/v1/admin/api-keys';

export const limitsPath = (id: string): string => `/ops/tenants/${encodeURIComponent(id)}/limits`;

/** What closing a tenant ends. */
export interface Open {
  readonly holds: number;
  readonly budgets: number;
  readonly keys: number;
  readonly webhooks: number;
  /** Whether a count stopped at MOST_COUNTED. */
  readonly isCut: boolean;
}

export const totalOf = ({ holds, budgets, keys, webhooks }: Open): number =>
  holds + budgets + keys + webhooks;

const PAGE_ROWS = 100;
/** More rows than this are not counted: each hundred is a request. */
const MOST_COUNTED = 1000;

async function countRows(path: string, query: Query, member: string): Promise<number> {
  let [count, cursor] = [0, undefined as string | undefined];
  do {
    const page = await get<Page>(path, { ...query, limit: PAGE_ROWS, cursor });
    count += (page as unknown as Readonly<Record<string, readonly unknown[]>>)[member]?.length ?? 0;
    cursor = page.has_more ? page.next_cursor : undefined;
  } while (cursor !== undefined && count < MOST_COUNTED);
  return count;
}

/** Counts what a tenant has that is open: live holds, and budgets, keys and subscriptions that are not closed. */
export async function openOf(tenantId: string): Promise<Open> {
  const of = (path: string, member: string, status: string): Promise<number> =>
    countRows(path, { tenant_id: tenantId, status }, member);
  const holds = countRows('/v1/reservations', { tenant: tenantId, status: 'ACTIVE' }, 'reservations');
  const counts = await Promise.all([
    holds,
    of('/v1/admin/budgets', 'ledgers', 'ACTIVE'),
    of('/v1/admin/budgets', 'ledgers', 'FROZEN'),
    of(API_KEYS, 'keys', 'ACTIVE'),
    of('/v1/admin/webhooks', 'subscriptions', 'ACTIVE'),
    of('/v1/admin/webhooks', 'subscriptions', 'PAUSED'),
  ]);
  const [live, active, frozen, keys, sent, paused] = counts;
  return {
    holds: live,
    budgets: active + frozen,
    keys,
    webhooks: sent + paused,
    isCut: counts.some((count) => count >= MOST_COUNTED),
  };
}
