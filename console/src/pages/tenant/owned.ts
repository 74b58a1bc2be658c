import { getPage } from '../../api/client';
import type { Answer, ListPath, Parameters } from '../../api/operations';
import { WEBHOOKS } from '../../api/webhooks';

export const API_KEYS = '/v1/admin/api-keys';

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

async function countRows<P extends ListPath>(
  path: P,
  query: Parameters<'get', P>,
  rows: (answer: Answer<'get', P>) => readonly unknown[],
): Promise<number> {
  let [count, cursor] = [0, undefined as string | undefined];
  do {
    const page = await getPage(path, { ...query, limit: PAGE_ROWS, cursor });
    count += rows(page.answer).length;
    cursor = page.next;
  } while (cursor !== undefined && count < MOST_COUNTED);
  return count;
}

/** Counts what a tenant has that is open: live holds, and budgets, keys and subscriptions that are not closed. */
export async function openOf(tenantId: string): Promise<Open> {
  const of = (status: string): { tenant_id: string; status: string } => ({ tenant_id: tenantId, status });
  const counts = await Promise.all([
    countRows('/v1/reservations', { tenant: tenantId, status: 'ACTIVE' }, (page) => page.reservations),
    countRows('/v1/admin/budgets', of('ACTIVE'), ({ ledgers }) => ledgers),
    countRows('/v1/admin/budgets', of('FROZEN'), ({ ledgers }) => ledgers),
    countRows(API_KEYS, of('ACTIVE'), ({ keys }) => keys),
    countRows(WEBHOOKS, of('ACTIVE'), ({ subscriptions }) => subscriptions),
    countRows(WEBHOOKS, of('PAUSED'), ({ subscriptions }) => subscriptions),
  ]);
  const [holds, active, frozen, keys, sent, paused] = counts;
  return {
    holds,
    budgets: active + frozen,
    keys,
    webhooks: sent + paused,
    isCut: counts.some((count) => count >= MOST_COUNTED),
  };
}
