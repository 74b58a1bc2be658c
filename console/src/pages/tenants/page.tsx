import { Button } from '@mantine/core';
import { getRouteApi, Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { useList } from '../../api/list';
import { useMayChange } from '../../api/session';
import type { Tenant } from '../../api/types';
import { FilterBar, useFilterChange, useSetters } from '../../parts/filter-bar';
import { ChoiceFilter, TextFilter } from '../../parts/filters';
import { Listing } from '../../parts/loaded';
import { PageHead } from '../../parts/panel';
import { Empty } from '../../parts/states';
import { Status } from '../../parts/status';
import { Table } from '../../parts/table';
import { Time } from '../../parts/time';
import { useTitle } from '../../parts/title';
import { CreateTenant } from './create-tenant';
import { KeyForm } from '../tenant/key-form';

const route = getRouteApi('/tenants');
const FILTERS = ['search', 'status'] as const;
const STATUSES = { ACTIVE: 'Active', SUSPENDED: 'Suspended', CLOSED: 'Closed' };

export function Tenants(): ReactNode {
  useTitle('Tenants');
  const filters = route.useSearch();
  const mayChange = useMayChange();
  const [isCreating, setCreating] = useState(false);
  const [keyFor, setKeyFor] = useState<string>();
  const list = useList('/v1/admin/tenants', filters, (answer) => answer.tenants);
  const change = useFilterChange<(typeof FILTERS)[number]>();
  const set = useSetters(FILTERS, change);
  return (
    <>
      <PageHead title="Tenants">
        {mayChange && (
          <Button size="compact-sm" onClick={() => setCreating(true)}>
            Create tenant
          </Button>
        )}
      </PageHead>
      <FilterBar filters={filters} names={FILTERS} change={change}>
        <TextFilter label="Search" value={filters.search} onChange={set.search} />
        <ChoiceFilter label="Status" value={filters.status} choices={STATUSES} onChange={set.status} />
      </FilterBar>
      <section className="panel">
        <Listing
          list={list}
          empty={<Empty title="No tenants here">Change the filters, or create a tenant.</Empty>}
        >
          {(tenants) => <TenantTable tenants={tenants} {...(mayChange ? { createKey: setKeyFor } : {})} />}
        </Listing>
      </section>
      {isCreating && <CreateTenant close={() => setCreating(false)} />}
      {keyFor !== undefined && (
        <KeyForm tenantId={keyFor} purpose="create" close={() => setKeyFor(undefined)} />
      )}
    </>
  );
}

function TenantTable({
  tenants,
  createKey,
}: {
  tenants: readonly Tenant[];
  createKey?: (tenantId: string) => void;
}): ReactNode {
  return (
    <Table label="Tenants" columns={['Tenant', 'Status', 'Created', { right: 'Look at' }]} items={tenants}>
      {({ tenant_id: id, name, status, created_at: createdAt }) => (
        <tr key={id}>
          <td>
            <Link to="/tenants/$id" params={{ id }}>
              {name}
            </Link>
            <div className="muted small id">{id}</div>
          </td>
          <td>
            <Status value={status} />
          </td>
          <td>
            <Time at={createdAt} />
          </td>
          <td className="right">
            <div className="row" style={{ justifyContent: 'flex-end', gap: 14 }}>
              <Link to="/budgets" search={{ tenant_id: id }}>
                Budgets
              </Link>
              <Link to="/reservations" search={{ tenant: id }}>
                Reservations
              </Link>
              {createKey !== undefined && status === 'ACTIVE' && (
                <Button variant="default" size="compact-xs" onClick={() => createKey(id)}>
                  Create key
                </Button>
              )}
            </div>
          </td>
        </tr>
      )}
    </Table>
  );
}
