import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { get } from '../../api/client';
import { Scope } from '../../parts/scope';
import { SidePanel } from '../../parts/side-panel';
import { Failure, Loading } from '../../parts/states';
import { Time } from '../../parts/time';
import { Tree } from '../../parts/tree';
import { type CyclesEvent, hasTenant } from './event';

/** One event, by its id, with the way to what it is about and to what came of the same request. */
export function EventDetails({
  id,
  known,
  close,
}: {
  id: string;
  /** The event, if the list has it. */
  known: CyclesEvent | undefined;
  close: () => void;
}): ReactNode {
  const { data, error, refetch } = useQuery({
    queryKey: ['/v1/admin/events', 'one', id],
    queryFn: () => get<CyclesEvent>(`/v1/admin/events/${encodeURIComponent(id)}`),
    // Events do not change.
    staleTime: Infinity,
    ...(known === undefined ? {} : { initialData: known }),
  });
  return (
    <SidePanel title={data?.event_type ?? 'Event'} close={close}>
      {data !== undefined ? (
        <Details event={data} />
      ) : error ? (
        <Failure error={error} retry={() => void refetch()} />
      ) : (
        <Loading height={300} />
      )}
    </SidePanel>
  );
}

function Details({ event }: { event: CyclesEvent }): ReactNode {
  return (
    <div className="stack">
      <dl className="facts">
        <dt>Time</dt>
        <dd>
          <Time at={event.timestamp} />
        </dd>
        <dt>Event</dt>
        <dd className="id">{event.event_id}</dd>
        <dt>By</dt>
        <dd className="id">
          {(event.actor?.type ?? 'system').replaceAll('_', ' ')} {event.actor?.key_id}
        </dd>
        <About event={event} />
        <SameCause event={event} />
      </dl>
      <section aria-label="Payload" className="stack" style={{ gap: 6 }}>
        <h3>Payload</h3>
        <Tree value={event.data ?? {}} />
      </section>
      {event.metadata !== undefined && (
        <section aria-label="Metadata" className="stack" style={{ gap: 6 }}>
          <h3>Metadata</h3>
          <Tree value={event.metadata} />
        </section>
      )}
    </div>
  );
}

/** The tenant, the budget and the reservation. */
function About({ event }: { event: CyclesEvent }): ReactNode {
  const { data = {}, scope, tenant_id: tenant } = event;
  const { reservation_id: reservation, unit } = data;
  return (
    <>
      <dt>Tenant</dt>
      <dd className="id">
        {hasTenant(event) ? (
          <Link to="/tenants" search={{ search: tenant }}>
            {tenant}
          </Link>
        ) : (
          'none: the system'
        )}
      </dd>
      {scope !== undefined && (
        <>
          <dt>Scope</dt>
          <dd>
            {typeof unit === 'string' ? (
              <Link to="/budgets/$unit" params={{ unit }} search={{ scope }}>
                <Scope path={scope} />
              </Link>
            ) : (
              <Scope path={scope} />
            )}
          </dd>
        </>
      )}
      {typeof reservation === 'string' && (
        <>
          <dt>Reservation</dt>
          <dd className="id">
            <Link to="/reservations/$id" params={{ id: reservation }}>
              {reservation}
            </Link>
          </dd>
        </>
      )}
    </>
  );
}

/** Links to the events, and to the rows of the audit log, of the same request, trace and bulk change. */
function SameCause({ event }: { event: CyclesEvent }): ReactNode {
  const { request_id: request, trace_id: trace, correlation_id: correlation } = event;
  return (
    <>
      {request !== undefined && (
        <>
          <dt>Request</dt>
          <dd>
            <div className="id">{request}</div>
            <Link to="/events" search={{ request_id: request }}>
              Its events
            </Link>
            {', '}
            <Link to="/audit" search={{ request_id: request }}>
              its audit rows
            </Link>
          </dd>
        </>
      )}
      {correlation !== undefined && (
        <>
          <dt>Correlation</dt>
          <dd>
            <div className="id">{correlation}</div>
            <Link to="/events" search={{ correlation_id: correlation }}>
              Events with this correlation id
            </Link>
          </dd>
        </>
      )}
      {trace !== undefined && (
        <>
          <dt>Trace</dt>
          <dd>
            <div className="id" style={{ overflowWrap: 'anywhere' }}>
              {trace}
            </div>
            <Link to="/events" search={{ trace_id: trace }}>
              Its events
            </Link>
            {', '}
            <Link to="/audit" search={{ trace_id: trace }}>
              its audit rows
            </Link>
          </dd>
        </>
      )}
    </>
  );
}
