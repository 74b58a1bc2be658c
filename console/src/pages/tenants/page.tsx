import { Button } from '@mantine/core';
import { getRouteApi, Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { useList } from '../../api/list';
import { useMayChange } from '../../api/session';
import type { Tenant } from '../../api/types';
import { Amount } from '../../parts/amount';
import { FilterBar, useFilterChange, useSetters } from '../../parts/filter-bar';
import { ChoiceFilter, TextFilter } from '../../parts/filters';
import { Listing } from '../../parts/loaded';
import { PageHead } from '../../parts/panel';
import { Empty, Failure } from '../../parts/states';
import { Status } from '../../parts/status';
import { Table } from '../../parts/table';
import { AsOf } from '../../parts/time';
import { useTitle } from '../../parts/title';
import { MonthNote } from './month-note';
import { NOT_READ, nothingIn, type Sums, useMonthOfTenants, useTenantSums } from './sums';
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

const COLUMNS = [
  'Tenant',
  { wide: 'Status' },
  { right: 'Remaining' },
  { right: 'Spent' },
  { right: 'Held' },
  { right: 'Allocated' },
  { right: 'Charged in 30 days' },
  { right: 'Look at' },
] as const;

function TenantTable({
  tenants,
  createKey,
}: {
  tenants: readonly Tenant[];
  createKey?: (tenantId: string) => void;
}): ReactNode {
  const sums = useTenantSums(tenants.map(({ tenant_id: id }) => id));
  const month = useMonthOfTenants();
  return (
    <>
      {sums.error !== null && <Failure error={sums.error} retry={() => void sums.refetch()} />}
      <MonthNote month={month} />
      {sums.asOf !== undefined && (
        <p className="panel-note">
          Sums of topmost budgets, <AsOf at={sums.asOf} />
        </p>
      )}
      <Table label="Tenants" columns={COLUMNS} items={tenants}>
        {({ tenant_id: id, name, status }) => (
          <tr key={id}>
            <td>
              <Link to="/tenants/$id" params={{ id }}>
                {name}
              </Link>
              {name !== id && <div className="muted small id">{id}</div>}
            </td>
            <td className="wide-only">
              <Status value={status} />
            </td>
            <SumCells sums={sums.of(id)} />
            <td className="right">
              {month?.of(id).map(({ unit, charged }) => (
                <div key={unit}>
                  <Link to="/usage" search={{ tenant_id: id, unit }} title="What it was charged for">
                    <Amount amount={charged} unit={unit} withUnit />
                  </Link>
                </div>
              ))}
              {(month?.of(id).length ?? 0) === 0 && <span className="muted">{nothingIn(month)}</span>}
            </td>
            <td className="right">
              <div className="row actions">
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
    </>
  );
}

/** A line for each unit. */
function SumCells({ sums }: { sums: Sums | undefined }): ReactNode {
  return (['remaining', 'spent', 'reserved', 'allocated'] as const).map((figure) => (
    <td key={figure} className="right">
      {sums?.map((sum) => (
        <div key={sum.unit}>
          <Amount
            amount={sum[figure]}
            unit={sum.unit}
            withUnit={figure === 'allocated' || figure === 'remaining'}
          />
        </div>
      ))}
      {(sums?.length ?? 0) === 0 && <span className="muted">{sums === undefined ? NOT_READ : '–'}</span>}
    </td>
  ));
}
