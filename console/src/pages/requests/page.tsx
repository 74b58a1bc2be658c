import { getRouteApi } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { usePage } from '../../api/list';
import type { Schema } from '../../api/operations';
import {
  type FilterChange,
  FilterBar,
  TimeFilter,
  useFilterChange,
  useSetters,
} from '../../parts/filter-bar';
import { ChoiceFilter, TextFilter } from '../../parts/filters';
import { KeyName } from '../../parts/key-name';
import { PagedList } from '../../parts/pager';
import { PageHead } from '../../parts/panel';
import { Scope } from '../../parts/scope';
import { Empty } from '../../parts/states';
import { Table } from '../../parts/table';
import { Time } from '../../parts/time';
import { useTitle } from '../../parts/title';
import { TenantFilter } from '../../parts/tenant-filter';
import { Answer } from '../audit/answer';
import { hasTenant, ownerOf } from '../audit/row';
import { RequestDetails } from './details';
import { REQUEST_FILTERS } from './filters';

const route = getRouteApi('/requests');

export type RefusedRequest = Schema<'RefusedRequest'>;

type Filters = FilterChange<(typeof REQUEST_FILTERS)[number]>;

const STATUSES: Readonly<Record<string, string>> = {
  '400': '400, not valid',
  '401': '401, no valid key',
  '403': '403, not allowed',
  '404': '404, not found',
  '409': '409, refused',
  '410': '410, expired',
  '413': '413, too large',
  '429': '429, too many',
  '503': '503, unavailable',
};

/** Why requests were refused, newest first. */
export function Requests(): ReactNode {
  useTitle('Refused requests');
  const { cursor, row, ...filters } = route.useSearch();
  const navigate = route.useNavigate();
  const page = usePage('/ops/requests', filters, (answer) => answer.requests, { cursor });
  const change = useFilterChange<(typeof REQUEST_FILTERS)[number]>();
  const open = (id: string | undefined): void =>
    void navigate({ search: (old) => ({ ...old, row: id }), resetScroll: false });
  return (
    <>
      <PageHead title="Refused requests" />
      <RequestFilters filters={filters} change={change} />
      <section className="panel" aria-label="Refused requests">
        <PagedList
          page={page}
          cursor={cursor}
          go={(next) => void navigate({ search: (old) => ({ ...old, cursor: next }), resetScroll: false })}
          empty={
            <Empty title="No such refusals">
              Change the filters. The log has refusals of the last 24 hours, the last 1,000 of each tenant;
              accepted requests, and the parts of a batch, are not in it.
            </Empty>
          }
        >
          <RequestTable rows={page.rows ?? []} open={open} />
        </PagedList>
      </section>
      {row !== undefined && (
        <RequestDetails
          id={row}
          known={page.rows?.find(({ request_id: id }) => id === row)}
          close={() => open(undefined)}
        />
      )}
    </>
  );
}

function RequestFilters({
  filters,
  change,
}: {
  filters: Filters;
  change: (changed: Filters) => void;
}): ReactNode {
  const set = useSetters(REQUEST_FILTERS, change);
  return (
    <FilterBar filters={filters} names={REQUEST_FILTERS} change={change}>
      <TextFilter label="Request id" value={filters.request_id} onChange={set.request_id} wide />
      <TenantFilter value={filters.tenant_id} onChange={set.tenant_id} />
      <ChoiceFilter label="Answer" value={filters.status} choices={STATUSES} onChange={set.status} />
      <TextFilter label="Error code" value={filters.error_code} onChange={set.error_code} />
      <TextFilter label="Operation" value={filters.operation} onChange={set.operation} />
      <TextFilter label="Scope" value={filters.scope} onChange={set.scope} wide />
      <TextFilter label="Key or operator" value={filters.key_id} onChange={set.key_id} />
      <TextFilter label="Resource id" value={filters.resource_id} onChange={set.resource_id} />
      <TimeFilter label="From" value={filters.from} onChange={set.from} />
      <TimeFilter label="To" value={filters.to} onChange={set.to} />
      <TextFilter label="Trace id" value={filters.trace_id} onChange={set.trace_id} />
    </FilterBar>
  );
}

function RequestTable({
  rows,
  open,
}: {
  rows: readonly RefusedRequest[];
  open: (id: string) => void;
}): ReactNode {
  return (
    <Table
      label="Refused requests"
      columns={['Time', 'Answer', 'Why', 'Request', 'Tenant', 'Key']}
      items={rows}
    >
      {(row) => (
        <tr key={row.log_id}>
          <td>
            <Time at={row.timestamp} />
          </td>
          {row.not_listed === undefined ? <Refusal row={row} open={open} /> : <NotListed row={row} />}
          <td className={hasTenant(row) ? 'id' : 'muted'}>{ownerOf(row)}</td>
          <td>
            <KeyName id={row.key_id} />
          </td>
        </tr>
      )}
    </Table>
  );
}

function Refusal({ row, open }: { row: RefusedRequest; open: (id: string) => void }): ReactNode {
  return (
    <>
      <td>
        <Answer row={row} />
      </td>
      <td style={{ whiteSpace: 'normal', minWidth: 240 }}>
        {row.message}
        {row.scope !== undefined && (
          <div className="small">
            <Scope path={row.scope} />
          </div>
        )}
      </td>
      <td>
        <button
          type="button"
          className="row-button"
          aria-haspopup="dialog"
          onClick={() => open(row.request_id ?? '')}
        >
          {row.operation}
        </button>
        <div className="small muted id">{row.request_id}</div>
      </td>
    </>
  );
}

function NotListed({
  row: { not_listed: count = 0, window_ms: windowMs = 0 },
}: {
  row: RefusedRequest;
}): ReactNode {
  return (
    <td colSpan={3} className="muted">
      {count.toLocaleString('en')} more refusals in the {windowMs / 1000} s before, which the log left out
    </td>
  );
}
