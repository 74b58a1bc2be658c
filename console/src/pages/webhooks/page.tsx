import { getRouteApi, Link } from '@tanstack/react-router';
import { type ReactNode, useCallback } from 'react';
import { useList } from '../../api/list';
import { ownerWord, SYSTEM_OWNER, type Webhook } from '../../api/webhooks';
import { ChoiceFilter, TextFilter } from '../../parts/filters';
import { MoreRows } from '../../parts/more-rows';
import { PageHead } from '../../parts/panel';
import { Empty, Failure, Loading } from '../../parts/states';
import { Status } from '../../parts/status';
import { Time } from '../../parts/time';

const route = getRouteApi('/webhooks');
const EVERY_MS = 5000;
const ORDERS = { url: 'Endpoint', tenant_id: 'Owner', status: 'Status' };
const STATUSES = { ACTIVE: 'Active', PAUSED: 'Paused', DISABLED: 'Disabled' };

interface WebhookList {
  readonly subscriptions: readonly Webhook[];
  readonly has_more: boolean;
  readonly next_cursor?: string;
}

/** The subscriptions of all tenants and of the system, with how well their deliveries do. */
export function Webhooks(): ReactNode {
  const filters = route.useSearch();
  const navigate = route.useNavigate();
  const { sort_by: sortBy } = filters;
  const list = useList(
    '/v1/admin/webhooks',
    { ...filters, ...(sortBy === undefined ? {} : { sort_dir: 'asc' }) },
    (answer: WebhookList) => answer.subscriptions,
    { everyMs: EVERY_MS },
  );
  const set = useCallback(
    (name: keyof typeof filters, value: string | undefined) =>
      void navigate({ search: (old) => ({ ...old, [name]: value }), replace: true }),
    [navigate],
  );
  const setSearch = useCallback((value: string | undefined) => set('search', value), [set]);
  const setTenant = useCallback((value: string | undefined) => set('tenant_id', value), [set]);
  const isFiltered = filters.search ?? filters.tenant_id ?? filters.status;
  return (
    <>
      <PageHead title="Webhooks">
        <Link to="/webhooks" search={{ ...filters, tenant_id: SYSTEM_OWNER }}>
          Only those of the system
        </Link>
      </PageHead>
      <div className="filters">
        <TextFilter label="URL or id contains" value={filters.search} onChange={setSearch} />
        <TextFilter label="Tenant id" value={filters.tenant_id} onChange={setTenant} width={150} />
        <ChoiceFilter
          label="Status"
          value={filters.status}
          choices={STATUSES}
          onChange={(value) => set('status', value)}
        />
        <ChoiceFilter
          label="Order by"
          all="Failures in a row"
          value={sortBy}
          choices={ORDERS}
          onChange={(value) => set('sort_by', value)}
        />
      </div>
      <section className="panel">
        {list.error && list.rows === undefined ? (
          <Failure error={list.error} retry={() => void list.refetch()} />
        ) : list.rows === undefined ? (
          <Loading height={300} />
        ) : list.rows.length === 0 ? (
          isFiltered === undefined ? (
            <Empty title="Nobody has subscribed yet">
              Tenants subscribe with POST /v1/webhooks, operators with POST /v1/admin/webhooks.
            </Empty>
          ) : (
            <Empty title="No subscription matches">Change the filters.</Empty>
          )
        ) : (
          <>
            <WebhookTable webhooks={list.rows} />
            <MoreRows
              shown={list.rows.length}
              hasMore={list.hasNextPage}
              isLoading={list.isFetchingNextPage}
              load={() => void list.fetchNextPage()}
            />
          </>
        )}
      </section>
    </>
  );
}

function WebhookTable({ webhooks }: { webhooks: readonly Webhook[] }): ReactNode {
  return (
    <div className="table-wrap" role="region" aria-label="Subscriptions" tabIndex={0}>
      <table className="table">
        <thead>
          <tr>
            <th>Endpoint</th>
            <th>Owner</th>
            <th>Status</th>
            <th className="right">Failures in a row</th>
            <th>Last success</th>
          </tr>
        </thead>
        <tbody>
          {webhooks.map((webhook) => (
            <WebhookRow key={webhook.subscription_id} webhook={webhook} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function WebhookRow({ webhook }: { webhook: Webhook }): ReactNode {
  const {
    subscription_id: id,
    tenant_id: owner,
    consecutive_failures: failures,
    last_success_at: last,
  } = webhook;
  return (
    <tr>
      <td>
        <Link to="/webhooks/$id" params={{ id }} className="id">
          {webhook.url}
        </Link>
        <div className="muted small id">{webhook.name ?? id}</div>
      </td>
      <td className="id">{ownerWord(owner)}</td>
      <td>
        <Status value={webhook.status} />
      </td>
      <td className="right num">{failures === 0 ? '0' : <span className="pill bad">{failures}</span>}</td>
      <td>{last === undefined ? <span className="muted">none yet</span> : <Time at={last} />}</td>
    </tr>
  );
}
