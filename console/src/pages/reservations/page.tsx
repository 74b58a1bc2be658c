import { getRouteApi, Link } from '@tanstack/react-router';
import { type ReactNode, useCallback } from 'react';
import { useList } from '../../api/list';
import type { Reservation } from '../../api/types';
import { Amount } from '../../parts/amount';
import {
  type FilterChange,
  FilterBar,
  TimeFilter,
  useFilterChange,
  useSetters,
} from '../../parts/filter-bar';
import { CheckFilter, ChoiceFilter, TextFilter } from '../../parts/filters';
import { Listing } from '../../parts/loaded';
import { PageHead } from '../../parts/panel';
import { levelsOf, Scope } from '../../parts/scope';
import { Empty } from '../../parts/states';
import { Status } from '../../parts/status';
import { Table } from '../../parts/table';
import { Time } from '../../parts/time';
import { useTitle } from '../../parts/title';
import { TenantFilter } from '../../parts/tenant-filter';
import { RESERVATION_FILTERS } from './filters';
import { LiveHolds } from './live';

const route = getRouteApi('/reservations');
const STATES = { ACTIVE: 'Active', COMMITTED: 'Committed', RELEASED: 'Released', EXPIRED: 'Expired' };
const RESERVATION_ID = /^rsv_\w+$/;
const LEVELS = ['workspace', 'app', 'workflow', 'agent', 'toolset'] as const;

type Filters = FilterChange<(typeof RESERVATION_FILTERS)[number]>;

/** The filters that a scope such as `workspace:prod/agent:bot` stands for. It may begin with the tenant. */
function filtersOf(scope = ''): Filters {
  const { tenant, ...levels } = levelsOf(scope.trim());
  return {
    ...(tenant === undefined ? {} : { tenant }),
    ...Object.fromEntries(LEVELS.map((level) => [level, levels[level]])),
  };
}

const scopeOf = (filters: Filters): string | undefined =>
  LEVELS.flatMap((level) => (filters[level] === undefined ? [] : [`${level}:${filters[level]}`])).join('/') ||
  undefined;

export function Reservations(): ReactNode {
  useTitle('Reservations');
  const { overdue, ...filters } = route.useSearch();
  const navigate = route.useNavigate();
  const hasTenant = filters.tenant !== undefined;
  const list = useList('/v1/reservations', filters, (answer) => answer.reservations, {
    enabled: hasTenant,
  });
  const change = useFilterChange<(typeof RESERVATION_FILTERS)[number]>();
  const set = useSetters(RESERVATION_FILTERS, change);
  const setScope = useCallback((scope: string | undefined) => change(filtersOf(scope)), [change]);
  const open = useCallback(
    (id: string | undefined) => {
      if (id !== undefined && RESERVATION_ID.test(id)) {
        void navigate({ to: '/reservations/$id', params: { id } });
      }
    },
    [navigate],
  );
  return (
    <>
      <PageHead title="Reservations" />
      <FilterBar filters={{ ...filters, overdue }} names={RESERVATION_FILTERS} change={change}>
        <TextFilter label="Open by id" value={undefined} onChange={open} />
        <TenantFilter value={filters.tenant} onChange={set.tenant} />
        <TextFilter label="Scope, by its levels" value={scopeOf(filters)} onChange={setScope} wide />
        {!hasTenant && <CheckFilter label="Overdue only" value={overdue} onChange={set.overdue} />}
        {hasTenant && (
          <>
            <ChoiceFilter label="State" value={filters.status} choices={STATES} onChange={set.status} />
            <TextFilter
              label="Idempotency key"
              value={filters.idempotency_key}
              onChange={set.idempotency_key}
            />
            <TimeFilter label="Created from" value={filters.from} onChange={set.from} />
            <TimeFilter label="Created to" value={filters.to} onChange={set.to} />
          </>
        )}
      </FilterBar>
      <section className="panel" aria-label={hasTenant ? 'Reservations of a tenant' : 'Live holds'}>
        {hasTenant ? (
          <Listing
            list={list}
            empty={
              <Empty title="No reservations here">
                Change the filters. Ended ones are kept for a limited time.
                {filters.idempotency_key !== undefined && (
                  <div>
                    A request that was denied made none:{' '}
                    <Link
                      to="/events"
                      search={{ tenant_id: filters.tenant, search: filters.idempotency_key }}
                    >
                      look for its denial
                    </Link>
                  </div>
                )}
              </Empty>
            }
          >
            {(reservations) => <ReservationTable reservations={reservations} />}
          </Listing>
        ) : (
          <LiveHolds overdue={overdue === 'true'} />
        )}
      </section>
    </>
  );
}

function ReservationTable({ reservations }: { reservations: readonly Reservation[] }): ReactNode {
  return (
    <Table
      label="Reservations"
      columns={['Reservation', 'State', { right: 'Held' }, { right: 'Charged' }, 'Created', 'Lease ends']}
      items={reservations}
    >
      {(reservation) => <ReservationRow key={reservation.reservation_id} reservation={reservation} />}
    </Table>
  );
}

function ReservationRow({ reservation }: { reservation: Reservation }): ReactNode {
  const { reservation_id: id, reserved, committed } = reservation;
  return (
    <tr>
      <td>
        <Link to="/reservations/$id" params={{ id }} className="id">
          {id}
        </Link>
        <div className="small">
          <Scope path={reservation.scope_path} />
        </div>
      </td>
      <td>
        <Status value={reservation.status} />
      </td>
      <td className="right">
        <Amount amount={reserved.amount} unit={reserved.unit} withUnit />
      </td>
      <td className="right">
        {committed === undefined ? (
          <span className="muted">–</span>
        ) : (
          <Amount amount={committed.amount} unit={committed.unit} />
        )}
      </td>
      <td>
        <Time at={reservation.created_at_ms} />
      </td>
      <td>
        <Time at={reservation.expires_at_ms} />
      </td>
    </tr>
  );
}
