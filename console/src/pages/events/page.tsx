import { getRouteApi } from '@tanstack/react-router';
import { type ReactNode } from 'react';
import { usePage } from '../../api/list';
import type { CyclesEvent } from '../../api/types';
import {
  type FilterChange,
  FilterBar,
  TimeFilter,
  useFilterChange,
  useSetters,
} from '../../parts/filter-bar';
import { ChoiceFilter, TextFilter } from '../../parts/filters';
import { Who } from '../../parts/key-name';
import { PagedList } from '../../parts/pager';
import { PageHead } from '../../parts/panel';
import { Scope } from '../../parts/scope';
import { Empty } from '../../parts/states';
import { Table } from '../../parts/table';
import { Time } from '../../parts/time';
import { useTitle } from '../../parts/title';
import { TenantFilter } from '../../parts/tenant-filter';
import { EventDetails } from './details';
import { CATEGORIES, categoryOf, CUSTOM_EVENT_TYPES, EVENT_TYPES, hasTenant } from './event';
import { EVENT_FILTERS } from './filters';

const route = getRouteApi('/events');

type Filters = FilterChange<(typeof EVENT_FILTERS)[number]>;

/** What happened, newest first. */
export function Events(): ReactNode {
  useTitle('Events');
  const { cursor, event, ...filters } = route.useSearch();
  const navigate = route.useNavigate();
  const page = usePage('/v1/admin/events', filters, (answer) => answer.events, { cursor });
  const change = useFilterChange<(typeof EVENT_FILTERS)[number]>();
  const open = (id: string | undefined): void =>
    void navigate({ search: (old) => ({ ...old, event: id }), resetScroll: false });
  return (
    <>
      <PageHead title="Events" />
      <EventFilters filters={filters} change={change} />
      <section className="panel" aria-label="Events">
        <PagedList
          page={page}
          cursor={cursor}
          go={(next) => void navigate({ search: (old) => ({ ...old, cursor: next }), resetScroll: false })}
          empty={
            <Empty title="No such events">
              Change the filters. Most reserves and commits have no event, and old events are removed.
            </Empty>
          }
        >
          <EventTable events={page.rows ?? []} open={open} />
        </PagedList>
      </section>
      {event !== undefined && (
        <EventDetails
          id={event}
          known={page.rows?.find(({ event_id: id }) => id === event)}
          close={() => open(undefined)}
        />
      )}
    </>
  );
}

/** The types of the chosen category; one that only the address names is a choice, too. */
function typesWith({ category, event_type: chosen }: Filters): Record<string, string> {
  const types: string[] = [...EVENT_TYPES, ...CUSTOM_EVENT_TYPES].filter(
    (type) => category === undefined || categoryOf(type) === category,
  );
  return Object.fromEntries(
    [...types, ...(chosen === undefined ? [] : [chosen])].map((type) => [type, type]),
  );
}

function EventFilters({
  filters,
  change,
}: {
  filters: Filters;
  change: (changed: Filters) => void;
}): ReactNode {
  const set = useSetters(EVENT_FILTERS, change);
  return (
    <FilterBar filters={filters} names={EVENT_FILTERS} change={change}>
      <ChoiceFilter
        label="Category"
        value={filters.category}
        choices={CATEGORIES}
        onChange={(category) => change({ category, event_type: undefined })}
      />
      <ChoiceFilter
        label="Type"
        value={filters.event_type}
        choices={typesWith(filters)}
        onChange={set.event_type}
      />
      <TenantFilter value={filters.tenant_id} onChange={set.tenant_id} />
      <TextFilter label="Scope begins with" value={filters.scope} onChange={set.scope} wide />
      <TimeFilter label="From" value={filters.from} onChange={set.from} />
      <TimeFilter label="To" value={filters.to} onChange={set.to} />
      <TextFilter label="Idempotency key" value={filters.search} onChange={set.search} />
      <TextFilter label="Request id" value={filters.request_id} onChange={set.request_id} />
      <TextFilter label="Correlation id" value={filters.correlation_id} onChange={set.correlation_id} wide />
      <TextFilter label="Trace id" value={filters.trace_id} onChange={set.trace_id} wide />
    </FilterBar>
  );
}

function EventTable({
  events,
  open,
}: {
  events: readonly CyclesEvent[];
  open: (id: string) => void;
}): ReactNode {
  return (
    <Table label="List of events" columns={['Time', 'Event', 'Tenant', 'Scope', 'By']} items={events}>
      {(event) => (
        <tr key={event.event_id}>
          <td>
            <Time at={event.timestamp} />
          </td>
          <td>
            <button
              type="button"
              className="row-button"
              aria-haspopup="dialog"
              onClick={() => open(event.event_id)}
            >
              {event.event_type}
            </button>
          </td>
          <td className="id">
            {hasTenant(event) ? event.tenant_id : <span className="muted">the system</span>}
          </td>
          <td style={{ minWidth: 150 }}>
            {event.scope === undefined ? <span className="muted">–</span> : <Scope path={event.scope} />}
          </td>
          <td style={{ minWidth: 130 }}>
            <Who type={event.actor?.type} tenant={event.tenant_id} id={event.actor?.key_id} />
          </td>
        </tr>
      )}
    </Table>
  );
}
