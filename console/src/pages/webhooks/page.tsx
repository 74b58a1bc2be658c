import { Button } from '@mantine/core';
import { getRouteApi, Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { useList } from '../../api/list';
import { useMayChange } from '../../api/session';
import type { Webhook } from '../../api/types';
import { ownerWord, SYSTEM_OWNER } from '../../api/webhooks';
import { FilterBar, useFilterChange, useSetters } from '../../parts/filter-bar';
import { ChoiceFilter, TextFilter } from '../../parts/filters';
import { Listing } from '../../parts/loaded';
import { PageHead } from '../../parts/panel';
import { Empty } from '../../parts/states';
import { Status } from '../../parts/status';
import { Table } from '../../parts/table';
import { Time } from '../../parts/time';
import { useTitle } from '../../parts/title';
import { TenantFilter } from '../../parts/tenant-filter';
import { WebhookForm } from '../webhook/form';

const route = getRouteApi('/webhooks');
const EVERY_MS = 5000;
const FILTERS = ['search', 'tenant_id', 'status', 'sort_by'] as const;
const ORDERS = { url: 'Endpoint', tenant_id: 'Owner', status: 'Status' };
const STATUSES = { ACTIVE: 'Active', PAUSED: 'Paused', DISABLED: 'Disabled' };

/** The subscriptions of all tenants and of the system, with how well their deliveries do. */
export function Webhooks(): ReactNode {
  useTitle('Webhooks');
  const filters = route.useSearch();
  const { sort_by: sortBy } = filters;
  const mayChange = useMayChange();
  const [isCreating, setCreating] = useState(false);
  const list = useList(
    '/v1/admin/webhooks',
    { ...filters, ...(sortBy === undefined ? {} : { sort_dir: 'asc' }) },
    (answer) => answer.subscriptions,
    { everyMs: EVERY_MS },
  );
  const change = useFilterChange<(typeof FILTERS)[number]>();
  const set = useSetters(FILTERS, change);
  const isFiltered = filters.search ?? filters.tenant_id ?? filters.status;
  return (
    <>
      <PageHead title="Webhooks">
        <Link to="/webhooks" search={{ ...filters, tenant_id: SYSTEM_OWNER }}>
          Only those of the system
        </Link>
        {mayChange && (
          <Button size="compact-sm" onClick={() => setCreating(true)}>
            Create subscription
          </Button>
        )}
      </PageHead>
      <FilterBar filters={filters} names={FILTERS} change={change}>
        <TextFilter label="URL or id contains" value={filters.search} onChange={set.search} />
        <TenantFilter value={filters.tenant_id} onChange={set.tenant_id} />
        <ChoiceFilter label="Status" value={filters.status} choices={STATUSES} onChange={set.status} />
        <ChoiceFilter
          label="Order by"
          all="Failures in a row"
          value={sortBy}
          choices={ORDERS}
          onChange={set.sort_by}
        />
      </FilterBar>
      <section className="panel">
        <Listing
          list={list}
          empty={
            isFiltered === undefined ? (
              <Empty title="Nobody has subscribed yet">
                Create a subscription, or let tenants do so with POST /v1/webhooks.
              </Empty>
            ) : (
              <Empty title="No subscription matches">Change the filters.</Empty>
            )
          }
        >
          {(webhooks) => <WebhookTable webhooks={webhooks} />}
        </Listing>
      </section>
      {isCreating && (
        <WebhookForm
          owner={filters.tenant_id === SYSTEM_OWNER ? '' : (filters.tenant_id ?? '')}
          close={() => setCreating(false)}
        />
      )}
    </>
  );
}

function WebhookTable({ webhooks }: { webhooks: readonly Webhook[] }): ReactNode {
  return (
    <Table
      label="Subscriptions"
      columns={['Endpoint', 'Owner', 'Status', { right: 'Failures in a row' }, 'Last success']}
      items={webhooks}
    >
      {(webhook) => <WebhookRow key={webhook.subscription_id} webhook={webhook} />}
    </Table>
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
      <td className="url">
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
