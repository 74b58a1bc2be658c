import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { type ReactNode, useEffect, useState } from 'react';
import { get, type Query } from '../../api/client';
import type { Int64 } from '../../api/json';
import type { Budget, Reservation } from '../../api/types';
import { Amount } from '../../parts/amount';
import { Loaded } from '../../parts/loaded';
import { Panel } from '../../parts/panel';
import { levelsOf, Scope } from '../../parts/scope';
import { Empty } from '../../parts/states';
import { Table } from '../../parts/table';
import { formatDuration, Time } from '../../parts/time';
import type { CyclesEvent } from '../events/event';

const EVERY_MS = 5000;
const SHOWN = 50;
const NEWEST = 100;
/** Sorting by deadline reads all reservations of the tenant. If that takes longer, the newest holds are shown. */
const SORTED_WITHIN_MS = 700;
/** How often the newest holds are read instead, because each time the sorted ones are tried first. */
const NEWEST_EVERY_MS = 30_000;
const DENIALS_READ = 100;
const DENIALS_SHOWN = 12;
const CLOCK_MS = 1000;

/** The time, once a second. */
function useNow(): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = window.setInterval(() => setNow(Date.now()), CLOCK_MS);
    return () => window.clearInterval(timer);
  }, []);
  return now;
}

interface Holds {
  readonly holds: readonly Reservation[];
  /** Which of the holds these are; empty if they are all. */
  readonly which: string;
  readonly everyMs: number;
}

/** The live holds of a scope by deadline: all of them, else the first ones, else the first of the newest ones. */
async function readHolds(scope: string): Promise<Holds> {
  const read = (query: Query, signal?: AbortSignal) =>
    get<{ reservations: Reservation[]; has_more: boolean }>(
      '/v1/reservations',
      { ...levelsOf(scope), status: 'ACTIVE', ...query },
      signal,
    );
  const newest = await read({ limit: NEWEST });
  const sorted = newest.has_more
    ? await read(
        { sort_by: 'expires_at_ms', sort_dir: 'asc', limit: SHOWN },
        AbortSignal.timeout(SORTED_WITHIN_MS),
      ).catch(() => undefined)
    : undefined;
  const found = sorted ?? newest;
  const holds = [...found.reservations].sort((one, other) => one.expires_at_ms - other.expires_at_ms);
  const isCut = newest.has_more && sorted === undefined;
  const isWhole = !found.has_more && holds.length <= SHOWN;
  return {
    holds: isCut ? holds : holds.slice(0, SHOWN),
    which: isCut ? `of the newest ${NEWEST}` : isWhole ? '' : `the first ${SHOWN}`,
    everyMs: isCut ? NEWEST_EVERY_MS : EVERY_MS,
  };
}

/** What holds a part of the budget, in the order in which it comes back. */
export function LiveHolds({ budget }: { budget: Budget }): ReactNode {
  const now = useNow();
  const holds = useQuery({
    queryKey: ['/v1/reservations', 'of-scope', budget.scope, budget.unit],
    queryFn: () => readHolds(budget.scope),
    select: (read) => ({
      ...read,
      holds: read.holds.filter(({ reserved }) => reserved.unit === budget.unit),
    }),
    refetchInterval: ({ state }) => state.data?.everyMs ?? EVERY_MS,
  });
  return (
    <Panel title="Live holds by deadline" className="span-6" flush aside={holds.data?.which ?? ''}>
      <Loaded query={holds}>
        {(read) =>
          read.holds.length === 0 ? (
            <Empty title="Nothing is held">All of what remains can be reserved.</Empty>
          ) : (
            <Table
              label="Live holds"
              columns={['Reservation', { right: 'Frees' }, { right: 'In' }]}
              items={read.holds}
            >
              {({ reservation_id: id, reserved, expires_at_ms: expiresMs }) => (
                <tr key={id}>
                  <td className="id">
                    <Link to="/reservations/$id" params={{ id }}>
                      {id}
                    </Link>
                  </td>
                  <td className="right">
                    <Amount amount={reserved.amount} unit={reserved.unit} />
                  </td>
                  <td className="right num" title={new Date(expiresMs).toISOString()}>
                    {expiresMs > now ? formatDuration(Math.ceil((expiresMs - now) / 1000) * 1000) : 'due'}
                  </td>
                </tr>
              )}
            </Table>
          )
        }
      </Loaded>
    </Panel>
  );
}

/** The reservations that this budget, or one below it, refused. */
export function LastDenials({ budget }: { budget: Budget }): ReactNode {
  const denials = useQuery({
    queryKey: ['/v1/admin/events', 'denials', budget.scope],
    queryFn: () =>
      get<{ events: CyclesEvent[] }>('/v1/admin/events', {
        event_type: 'reservation.denied',
        tenant_id: budget.tenant_id,
        scope: budget.scope,
        limit: DENIALS_READ,
      }),
    // The API does not filter events by unit.
    select: ({ events }) =>
      events.filter(({ data: told }) => told?.['unit'] === budget.unit).slice(0, DENIALS_SHOWN),
    refetchInterval: EVERY_MS,
  });
  return (
    <Panel title="Last denials" className="span-6" flush>
      <Loaded query={denials}>
        {(events) =>
          events.length === 0 ? (
            <Empty title="Nothing was denied">Denials are kept as long as events are.</Empty>
          ) : (
            <Table label="Last denials" columns={['When', 'Why', { right: 'Asked for' }]} items={events}>
              {(event) => <DenialRow key={event.event_id} event={event} />}
            </Table>
          )
        }
      </Loaded>
    </Panel>
  );
}

function DenialRow({ event }: { event: CyclesEvent }): ReactNode {
  const { reason_code: reason, requested_amount: amount, unit } = event.data;
  return (
    <tr>
      <td>
        <Time at={event.timestamp} />
      </td>
      <td>
        {typeof reason === 'string' ? reason.toLowerCase().replaceAll('_', ' ') : 'no reason given'}
        <div className="small">
          <Scope path={event.scope ?? ''} />
        </div>
      </td>
      <td className="right">
        {amount === undefined ? '–' : <Amount amount={amount as Int64} unit={String(unit)} />}
      </td>
    </tr>
  );
}
