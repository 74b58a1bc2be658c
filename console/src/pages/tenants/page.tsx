import { Button } from '@mantine/core';
import { getRouteApi, Link } from '@tanstack/react-router';
import { type ReactNode, useCallback, useState } from 'react';
import { useList } from '../../api/list';
import { useMayChange } from '../../api/session';
import type { Tenant } from '../../api/types';
import { ChoiceFilter, TextFilter } from '../../parts/filters';
import { MoreRows } from '../../parts/more-rows';
import { PageHead } from '../../parts/panel';
import { Empty, Failure, Loading } from '../../parts/states';
import { Status } from '../../parts/status';
import { Time } from '../../parts/time';
import { CreateTenant } from './create-tenant';
import { CreateKey } from './create-key';

const route = getRouteApi('/tenants');

export function Tenants(): ReactNode {
  const filters = route.useSearch();
  const navigate = route.useNavigate();
  const mayChange = useMayChange();
  const [isCreating, setCreating] = useState(false);
  const [keyFor, setKeyFor] = useState<string>();
  const list = useList('/v1/admin/tenants', filters, (answer: TenantList) => answer.tenants);
  const setSearch = useCallback(
    (search: string | undefined) => void navigate({ search: (old) => ({ ...old, search }), replace: true }),
    [navigate],
  );
  return (
    <>
      <PageHead title="Tenants">
        {mayChange && (
          <Button size="compact-sm" onClick={() => setCreating(true)}>
            Create tenant
          </Button>
        )}
      </PageHead>
      <div className="filters">
        <TextFilter label="Search" value={filters.search} onChange={setSearch} />
        <ChoiceFilter
          label="Status"
          value={filters.status}
          choices={{ ACTIVE: 'Active', SUSPENDED: 'Suspended', CLOSED: 'Closed' }}
          onChange={(status) => void navigate({ search: (old) => ({ ...old, status }) })}
        />
      </div>
      <section className="panel">
        {list.error && list.rows === undefined ? (
          <Failure error={list.error} retry={() => void list.refetch()} />
        ) : list.rows === undefined ? (
          <Loading height={300} />
        ) : list.rows.length === 0 ? (
          <Empty title="No tenants here">Change the filters, or create a tenant.</Empty>
        ) : (
          <>
            <TenantTable tenants={list.rows} {...(mayChange ? { createKey: setKeyFor } : {})} />
            <MoreRows
              shown={list.rows.length}
              hasMore={list.hasNextPage}
              isLoading={list.isFetchingNextPage}
              load={() => void list.fetchNextPage()}
            />
          </>
        )}
      </section>
      {isCreating && <CreateTenant close={() => setCreating(false)} />}
      {keyFor !== undefined && <CreateKey tenantId={keyFor} close={() => setKeyFor(undefined)} />}
    </>
  );
}

interface TenantList {
  readonly tenants: readonly Tenant[];
  readonly has_more: boolean;
  readonly next_cursor?: string;
}

function TenantTable({
  tenants,
  createKey,
}: {
  tenants: readonly Tenant[];
  createKey?: (tenantId: string) => void;
}): ReactNode {
  return (
    <div className="table-wrap" role="region" aria-label="Tenants" tabIndex={0}>
      <table className="table">
        <thead>
          <tr>
            <th>Tenant</th>
            <th>Status</th>
            <th>Created</th>
            <th className="right">Look at</th>
          </tr>
        </thead>
        <tbody>
          {tenants.map(({ tenant_id: id, name, status, created_at: createdAt }) => (
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
          ))}
        </tbody>
      </table>
    </div>
  );
}
