import { getRouteApi, Link } from '@tanstack/react-router';
import { type ReactNode, useMemo } from 'react';
import { useList } from '../../api/list';
import type { Reservation } from '../../api/types';
import { Amount } from '../../parts/amount';
import { ChoiceFilter, TextFilter } from '../../parts/filters';
import { MoreRows } from '../../parts/more-rows';
import { PageHead } from '../../parts/panel';
import { Scope } from '../../parts/scope';
import { Empty, Failure, Loading } from '../../parts/states';
import { Status } from '../../parts/status';
import { Time } from '../../parts/time';

const route = getRouteApi('/reservations');
const STATES = { ACTIVE: 'Active', COMMITTED: 'Committed', RELEASED: 'Released', EXPIRED: 'Expired' };
const RESERVATION_ID = /^rsv_\w+$/;

interface ReservationList {
  readonly reservations: readonly Reservation[];
  readonly has_more: boolean;
  readonly next_cursor?: string;
}

export function Reservations(): ReactNode {
  const filters = route.useSearch();
  const navigate = route.useNavigate();
  const hasTenant = filters.tenant !== undefined;
  const list = useList('/v1/reservations', filters, (answer: ReservationList) => answer.reservations, {
    enabled: hasTenant,
  });
  const set = useMemo(() => {
    const setter = (name: keyof typeof filters) => (value: string | undefined) =>
      void navigate({ search: (old) => ({ ...old, [name]: value }), replace: true });
    return {
      tenant: setter('tenant'),
      key: setter('idempotency_key'),
      workspace: setter('workspace'),
      agent: setter('agent'),
      status: setter('status'),
      open: (id: string | undefined) => {
        if (id !== undefined && RESERVATION_ID.test(id)) {
          void navigate({ to: '/reservations/$id', params: { id } });
        }
      },
    };
  }, [navigate]);
  return (
    <>
      <PageHead title="Reservations" />
      <div className="filters">
        <TextFilter label="Open by id" value={undefined} onChange={set.open} width={210} />
        <TextFilter label="Tenant id" value={filters.tenant} onChange={set.tenant} width={150} />
        <ChoiceFilter label="State" value={filters.status} choices={STATES} onChange={set.status} />
        <TextFilter label="Idempotency key" value={filters.idempotency_key} onChange={set.key} width={170} />
        <TextFilter label="Workspace" value={filters.workspace} onChange={set.workspace} width={120} />
        <TextFilter label="Agent" value={filters.agent} onChange={set.agent} width={120} />
      </div>
      <section className="panel">
        {!hasTenant ? (
          <Empty title="Whose reservations?">
            Enter a tenant, or <Link to="/tenants">choose one</Link>.
          </Empty>
        ) : list.error && list.rows === undefined ? (
          <Failure error={list.error} retry={() => void list.refetch()} />
        ) : list.rows === undefined ? (
          <Loading height={300} />
        ) : list.rows.length === 0 ? (
          <Empty title="No reservations here">
            Change the filters. Ended ones are kept for a limited time.
          </Empty>
        ) : (
          <>
            <ReservationTable reservations={list.rows} />
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

function ReservationTable({ reservations }: { reservations: readonly Reservation[] }): ReactNode {
  return (
    <div className="table-wrap" role="region" aria-label="Reservations" tabIndex={0}>
      <table className="table">
        <thead>
          <tr>
            <th>Reservation</th>
            <th>State</th>
            <th className="right">Held</th>
            <th className="right">Charged</th>
            <th>Created</th>
            <th>Deadline</th>
          </tr>
        </thead>
        <tbody>
          {reservations.map((reservation) => (
            <tr key={reservation.reservation_id}>
              <td>
                <Link to="/reservations/$id" params={{ id: reservation.reservation_id }} className="id">
                  {reservation.reservation_id}
                </Link>
                <div className="small">
                  <Scope path={reservation.scope_path} />
                </div>
              </td>
              <td>
                <Status value={reservation.status} />
              </td>
              <td className="right">
                <Amount amount={reservation.reserved.amount} unit={reservation.reserved.unit} withUnit />
              </td>
              <td className="right">
                {reservation.committed === undefined ? (
                  <span className="muted">–</span>
                ) : (
                  <Amount amount={reservation.committed.amount} unit={reservation.committed.unit} />
                )}
              </td>
              <td>
                <Time at={reservation.created_at_ms} />
              </td>
              <td>
                <Time at={reservation.expires_at_ms} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
