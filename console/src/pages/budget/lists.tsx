import { Button } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { get } from '../../api/client';
import type { Int64 } from '../../api/json';
import type { Schema } from '../../api/operations';
import type { Budget, CyclesEvent } from '../../api/types';
import { Amount, unitWord } from '../../parts/amount';
import { Loaded } from '../../parts/loaded';
import { COUNT } from '../../parts/numbers';
import { Panel } from '../../parts/panel';
import { Scope } from '../../parts/scope';
import { Empty } from '../../parts/states';
import { Table } from '../../parts/table';
import { formatDuration, Time, useNow } from '../../parts/time';
import { DENIALS } from '../events/event';

const EVERY_MS = 5000;
const SHOWN = 50;
/** How many pages are read; each looks at 20,000 live reservations of the partition, if few of them hold the budget. */
const PAGES = 5;
/** How often a long search is repeated. */
const SEARCH_EVERY_MS = 30_000;
const DENIALS_READ = 100;
const DENIALS_SHOWN = 12;
const CLOCK_MS = 1000;

type HoldList = Omit<Schema<'BudgetHoldList'>, 'scope' | 'unit'> & { pages: number };

/** The first holds of a budget, from some pages. Once they add up to what the budget has reserved, there are no more. */
async function readHolds({ scope, unit, reserved }: Budget, mostPages: number): Promise<HoldList> {
  let missing = BigInt(reserved.amount);
  let found: HoldList = { holds: [], pages: 0, examined: 0, has_more: missing > 0n };
  while (found.has_more && found.holds.length < SHOWN && found.pages < mostPages) {
    const page = await get('/ops/budgets/holds', {
      scope,
      unit,
      limit: SHOWN - found.holds.length,
      cursor: found.next_cursor,
    });
    missing -= page.holds.reduce((sum, { amount }) => sum + BigInt(amount.amount), 0n);
    found = {
      ...page,
      holds: [...found.holds, ...page.holds],
      pages: found.pages + 1,
      examined: found.examined + page.examined,
      has_more: page.has_more && missing > 0n,
    };
  }
  return found;
}

/** What holds a part of the budget, in the order in which it comes back. */
export function LiveHolds({ budget }: { budget: Budget }): ReactNode {
  const now = useNow();
  const [mostPages, setMostPages] = useState(PAGES);
  const holds = useQuery({
    queryKey: ['/ops/budgets/holds', budget.scope, budget.unit, mostPages],
    queryFn: () => readHolds(budget, mostPages),
    placeholderData: keepPreviousData,
    refetchInterval: ({ state }) => ((state.data?.pages ?? 0) > 1 ? SEARCH_EVERY_MS : EVERY_MS),
  });
  const isFull = (holds.data?.holds.length ?? 0) >= SHOWN;
  return (
    <Panel
      title="Live holds by deadline"
      className="span-6 scrolls"
      flush
      aside={isFull && holds.data?.has_more === true ? `the first ${SHOWN}` : ''}
    >
      <Loaded query={holds}>
        {(read) => (
          <>
            {read.holds.length > 0 && <HoldTable holds={read.holds} now={now} />}
            {read.holds.length === 0 && !read.has_more && (
              <Empty title="Nothing is held">All of what remains can be reserved.</Empty>
            )}
            {read.has_more && !isFull && (
              <div className="row foot">
                <span className="muted small num" role="status">
                  {COUNT.format(read.examined)} live reservations looked at, by deadline
                </span>
                <Button
                  variant="default"
                  size="compact-sm"
                  loading={holds.isPlaceholderData}
                  onClick={() => setMostPages(read.pages + 2 * PAGES)}
                >
                  Search on
                </Button>
              </div>
            )}
          </>
        )}
      </Loaded>
    </Panel>
  );
}

function HoldTable({ holds, now }: { holds: HoldList['holds']; now: number }): ReactNode {
  return (
    <Table label="Live holds" columns={['Reservation', { right: 'Frees' }, { right: 'In' }]} items={holds}>
      {({ reservation_id: id, amount, reclaim_at_ms: reclaimMs, expires_by_itself: expires }) => (
        <tr key={id}>
          <td className="id">
            <Link to="/reservations/$id" params={{ id }}>
              {id}
            </Link>
          </td>
          <td className="right">
            <Amount amount={amount.amount} unit={amount.unit} />
          </td>
          <td className="right num" title={`${new Date(reclaimMs).toISOString()} (UTC)`}>
            {expires ? timeTo(reclaimMs, now) : 'by an operator'}
          </td>
        </tr>
      )}
    </Table>
  );
}

function timeTo(atMs: number, now: number): string {
  return atMs > now ? formatDuration(Math.ceil((atMs - now) / CLOCK_MS) * CLOCK_MS) : 'due';
}

/** The reservations and direct debits that this budget, or one below it, refused. */
export function LastDenials({ budget }: { budget: Budget }): ReactNode {
  const denials = useQuery({
    queryKey: ['/v1/admin/events', 'denials', budget.scope],
    queryFn: async () => {
      const pages = await Promise.all(
        DENIALS.map((event_type) =>
          get('/v1/admin/events', {
            event_type,
            tenant_id: budget.tenant_id,
            scope: budget.scope,
            limit: DENIALS_READ,
          }),
        ),
      );
      return {
        events: pages.flatMap(({ events }) => events),
        isCut: pages.some(({ has_more: hasMore }) => hasMore),
      };
    },
    // The API does not filter events by unit.
    select: ({ events, isCut }) => ({
      looked: events.length,
      isCut,
      events: events
        .filter(({ data: told }) => told?.['unit'] === budget.unit)
        .sort((one, other) => Date.parse(other.timestamp) - Date.parse(one.timestamp))
        .slice(0, DENIALS_SHOWN),
    }),
    refetchInterval: EVERY_MS,
  });
  return (
    <Panel
      title="Last denials"
      className="span-6 scrolls"
      flush
      aside={
        <>
          <Link to="/events" search={{ event_type: 'reservation.denied', scope: budget.scope }}>
            All denials
          </Link>
          ,{' '}
          <Link to="/events" search={{ event_type: 'custom.direct_debit.denied', scope: budget.scope }}>
            of direct debits
          </Link>
        </>
      }
    >
      <Loaded query={denials}>
        {({ events, looked, isCut }) =>
          events.length === 0 ? (
            isCut ? (
              <Empty
                title={
                  looked === 0
                    ? 'None of the newest events is a denial'
                    : `None of the last ${looked} denials is in ${unitWord(budget.unit)}`
                }
              >
                The older ones were not looked at. The lists of all denials have them.
              </Empty>
            ) : (
              <Empty title="Nothing was denied">Denials are kept as long as events are.</Empty>
            )
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
  const { reason_code: reason, requested_amount: amount, unit, window } = event.data;
  return (
    <tr>
      <td>
        <Link to="/events" search={{ event: event.event_id }}>
          <Time at={event.timestamp} />
        </Link>
      </td>
      <td>
        {typeof reason === 'string' ? reason.toLowerCase().replaceAll('_', ' ') : 'no reason given'}
        {typeof window === 'string' && ` in window ${window}`}
        {event.event_type === 'custom.direct_debit.denied' && ', direct debit'}
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
