import { getRouteApi } from '@tanstack/react-router';
import { type ReactNode } from 'react';
import { usePage } from '../../api/list';
import {
  type FilterChange,
  FilterBar,
  TimeFilter,
  useFilterChange,
  useSetters,
} from '../../parts/filter-bar';
import { CheckFilter, ChoiceFilter, TextFilter } from '../../parts/filters';
import { KeyName } from '../../parts/key-name';
import { PagedList } from '../../parts/pager';
import { PageHead } from '../../parts/panel';
import { Empty } from '../../parts/states';
import { Table } from '../../parts/table';
import { Time } from '../../parts/time';
import { useTitle } from '../../parts/title';
import { TenantFilter } from '../../parts/tenant-filter';
import { Answer } from './answer';
import { RowDetails } from './details';
import { type AuditRow, hasTenant, ownerOf, statusRange, STATUSES } from './row';
import { AUDIT_FILTERS } from './filters';

const route = getRouteApi('/audit');

type Filters = FilterChange<(typeof AUDIT_FILTERS)[number]>;

/** Who asked for what, and what came of it, newest first. */
export function AuditLog(): ReactNode {
  useTitle('Audit log');
  const { cursor, row, ...filters } = route.useSearch();
  const navigate = route.useNavigate();
  const query = { ...filters, status: undefined, ...statusRange(filters.status) };
  const page = usePage('/v1/admin/audit/logs', query, (answer) => answer.logs, { cursor });
  const change = useFilterChange<(typeof AUDIT_FILTERS)[number]>();
  const open = (id: string | undefined): void =>
    void navigate({ search: (old) => ({ ...old, row: id }), resetScroll: false });
  return (
    <>
      <PageHead title="Audit log" />
      <AuditFilters filters={filters} change={change} />
      <section className="panel" aria-label="Audit log">
        <PagedList
          page={page}
          cursor={cursor}
          go={(next) => void navigate({ search: (old) => ({ ...old, cursor: next }), resetScroll: false })}
          empty={
            <Empty title="No such rows">
              Change the filters. Rows of reads are kept for a shorter time than those of changes.
            </Empty>
          }
        >
          <AuditTable rows={page.rows ?? []} open={open} />
        </PagedList>
      </section>
      {row !== undefined && (
        <RowDetails
          id={row}
          known={page.rows?.find(({ log_id: id }) => id === row)}
          close={() => open(undefined)}
        />
      )}
    </>
  );
}

function AuditFilters({
  filters,
  change,
}: {
  filters: Filters;
  change: (changed: Filters) => void;
}): ReactNode {
  const set = useSetters(AUDIT_FILTERS, change);
  return (
    <FilterBar filters={filters} names={AUDIT_FILTERS} change={change}>
      <TenantFilter value={filters.tenant_id} onChange={set.tenant_id} />
      <TextFilter label="Operation" value={filters.operation} onChange={set.operation} />
      <ChoiceFilter label="Answer" value={filters.status} choices={STATUSES} onChange={set.status} />
      <CheckFilter label="Changes only" value={filters.changes_only} onChange={set.changes_only} />
      <TextFilter label="Error code" value={filters.error_code} onChange={set.error_code} />
      <TimeFilter label="From" value={filters.from} onChange={set.from} />
      <TimeFilter label="To" value={filters.to} onChange={set.to} />
      <TextFilter label="Key, session or operator" value={filters.key_id} onChange={set.key_id} />
      <TextFilter label="Resource type" value={filters.resource_type} onChange={set.resource_type} />
      <TextFilter label="Resource id" value={filters.resource_id} onChange={set.resource_id} />
      <TextFilter label="Request id" value={filters.request_id} onChange={set.request_id} />
      <TextFilter label="Trace id" value={filters.trace_id} onChange={set.trace_id} wide />
    </FilterBar>
  );
}

function AuditTable({ rows, open }: { rows: readonly AuditRow[]; open: (id: string) => void }): ReactNode {
  return (
    <Table
      label="Rows of the audit log"
      columns={['Time', 'Operation', 'Answer', 'Tenant', 'Resource', 'Key']}
      items={rows}
    >
      {(row) => (
        <tr key={row.log_id}>
          <td>
            <Time at={row.timestamp} />
          </td>
          <td>
            <button
              type="button"
              className="row-button"
              aria-haspopup="dialog"
              onClick={() => open(row.log_id)}
            >
              {row.operation}
            </button>
          </td>
          <td>
            <Answer row={row} />
          </td>
          <td className={hasTenant(row) ? 'id' : 'muted'}>{ownerOf(row)}</td>
          <td className="id">{row.resource_id ?? <span className="muted">–</span>}</td>
          <td>
            <KeyName id={row.key_id} />
          </td>
        </tr>
      )}
    </Table>
  );
}
