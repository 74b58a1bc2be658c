import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { get } from '../../api/client';
import type { CyclesEvent } from '../../api/types';
import { Who } from '../../parts/key-name';
import { Loaded } from '../../parts/loaded';
import { Scope } from '../../parts/scope';
import { SameCause } from '../../parts/same-cause';
import { SidePanel } from '../../parts/side-panel';
import { Time } from '../../parts/time';
import { ToldTo } from '../../parts/told';
import { Tree } from '../../parts/tree';
import { hasTenant } from './event';

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
  const event = useQuery({
    queryKey: ['/v1/admin/events', 'one', id],
    queryFn: () => get('/v1/admin/events/{event_id}', { event_id: id }),
    // Events do not change.
    staleTime: Infinity,
    ...(known === undefined ? {} : { initialData: known }),
  });
  return (
    <SidePanel title={event.data?.event_type ?? 'Event'} close={close}>
      <Loaded query={event} height={300}>
        {(found) => <Details event={found} />}
      </Loaded>
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
        <dd>
          <Who type={event.actor?.type} tenant={event.tenant_id} id={event.actor?.key_id} />
        </dd>
        <About event={event} />
        <SameCause request={event.request_id} trace={event.trace_id} correlation={event.correlation_id} />
      </dl>
      <section aria-label="Who was told" className="stack" style={{ gap: 6 }}>
        <h3>Who was told</h3>
        <ToldTo event={event.event_id} />
      </section>
      <section aria-label="Payload" className="stack" style={{ gap: 6 }}>
        <h3>Payload</h3>
        <Tree value={event.data} />
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
  const { data, scope, tenant_id: tenant } = event;
  const { reservation_id: reservation, unit } = data;
  return (
    <>
      <dt>Tenant</dt>
      <dd className="id">
        {hasTenant(event) ? (
          <Link to="/tenants/$id" params={{ id: tenant }}>
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
