import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { DAY_MS } from '../../../../src/ledger/time';
import { get } from '../../api/client';
import type { Int64 } from '../../api/json';
import { serverNowMs } from '../../api/server-time';
import type { Budget, CyclesEvent } from '../../api/types';
import { Amount } from '../../parts/amount';
import { Who } from '../../parts/key-name';
import { Loaded } from '../../parts/loaded';
import { COUNT } from '../../parts/numbers';
import { Panel } from '../../parts/panel';
import { Empty } from '../../parts/states';
import { wordOf } from '../../parts/status';
import { Table } from '../../parts/table';
import { Time } from '../../parts/time';
import { DENIALS } from '../events/event';

const EVERY_MS = 30_000;
const DAYS = 30;
const PAGE_EVENTS = 100;
/** Each hundred is a request. */
const MOST_PAGES = 10;
const DAY = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });

/** What is counted: denials and expirations here and in the scopes below, thresholds only here. */
const KINDS: readonly (readonly [label: string, colour: string, types: readonly string[], isOwn: boolean])[] =
  [
    ['Denials', '--deny', DENIALS, false],
    ['Expirations', '--expire', ['reservation.expired'], false],
    ['Thresholds crossed', '--reserve', ['budget.threshold_crossed'], true],
  ];

interface History {
  readonly events: readonly CyclesEvent[];
  /** The start of the first day, in the reader's zone. */
  readonly fromMs: number;
  /** Whether there are older ones that were not read. */
  readonly isCut: boolean;
}

/** The events of a budget and of the scopes below it in the last days, newest first. */
async function readHistory({ tenant_id: tenant, scope, unit }: Budget): Promise<History> {
  const fromMs = new Date(serverNowMs() - (DAYS - 1) * DAY_MS).setHours(0, 0, 0, 0);
  const events: CyclesEvent[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const read = await get('/v1/admin/events', {
      tenant_id: tenant,
      scope,
      from: new Date(fromMs).toISOString(),
      limit: PAGE_EVENTS,
      cursor,
    });
    events.push(...read.events);
    cursor = read.has_more ? read.next_cursor : undefined;
    if (cursor === undefined) {
      break;
    }
  }
  const isOfBudget = ({ scope: of = '', data }: CyclesEvent): boolean =>
    `${of}/`.startsWith(`${scope}/`) && data['unit'] === unit;
  return { events: events.filter(isOfBudget), fromMs, isCut: cursor !== undefined };
}

/** What happened to a budget on each of the last 30 days, and every change of it. */
export function BudgetHistory({ budget }: { budget: Budget }): ReactNode {
  const { tenant_id: tenant, scope } = budget;
  const history = useQuery({
    queryKey: ['/v1/admin/budgets', 'history', scope, budget.unit],
    queryFn: () => readHistory(budget),
    refetchInterval: EVERY_MS,
  });
  return (
    <Panel
      title={`The last ${DAYS} days, with the scopes below`}
      className="span-12"
      flush
      aside={
        <Link to="/events" search={{ tenant_id: tenant, scope }}>
          All events
        </Link>
      }
    >
      <Loaded query={history} height={220}>
        {({ events, fromMs, isCut }) => (
          <>
            <div className="grid panel-body">
              {KINDS.map(([label, colour, types, isOwn]) => (
                <Days
                  key={label}
                  label={label}
                  colour={colour}
                  fromMs={fromMs}
                  times={events
                    .filter(
                      ({ event_type: type, scope: of }) => types.includes(type) && (!isOwn || of === scope),
                    )
                    .map(({ timestamp }) => Date.parse(timestamp))}
                />
              ))}
            </div>
            {isCut && (
              <p className="muted small panel-body">
                There are more: these are the newest {COUNT.format(MOST_PAGES * PAGE_EVENTS)} events.
              </p>
            )}
            <Changes
              budget={budget}
              isCut={isCut}
              events={events.filter(({ event_type: type, scope: of }) => of === scope && CHANGES.test(type))}
            />
          </>
        )}
      </Loaded>
    </Panel>
  );
}

/** How often something happened on each day. */
function Days({
  label,
  colour,
  fromMs,
  times,
}: {
  label: string;
  colour: string;
  fromMs: number;
  times: readonly number[];
}): ReactNode {
  // Days of 23 or 25 hours start at midnight, too.
  const startOf = (day: number): number => {
    const date = new Date(fromMs);
    return date.setDate(date.getDate() + day);
  };
  const counts = Array.from(
    { length: DAYS },
    (_, day) => times.filter((ms) => ms >= startOf(day) && ms < startOf(day + 1)).length,
  );
  const most = Math.max(1, ...counts);
  return (
    <div className="span-4">
      <div className="muted">
        <span className="swatch" style={{ background: `var(${colour})` }} />
        {label}
      </div>
      <div className="figure">{COUNT.format(times.length)}</div>
      <div className="bars" role="img" aria-label={`${label} a day, at most ${Math.max(...counts)}`}>
        {counts.map((count, day) => (
          <div
            key={day}
            title={`${DAY.format(startOf(day))}: ${COUNT.format(count)}`}
            style={{
              height: `${count === 0 ? 0 : Math.max(4, (count / most) * 100)}%`,
              background: `var(${colour})`,
            }}
          />
        ))}
      </div>
      <div className="muted small row" style={{ justifyContent: 'space-between' }}>
        <span>{DAY.format(fromMs)}</span>
        <span>today</span>
      </div>
    </div>
  );
}

const CHANGES =
  /^(budget\.(created|updated|funded|debited|reset|reset_spent|debt_repaid|frozen|unfrozen|closed)|custom\.credit\.(granted|voided))/;

/** Which member has the amount: of a credit that was granted, or what a void took back. */
const CREDIT_AMOUNTS: Readonly<Record<string, string>> = {
  'custom.credit.granted': 'amount',
  'custom.credit.voided': 'voided',
};

/** Who changed the budget, when and why. */
function Changes({
  budget,
  events,
  isCut,
}: {
  budget: Budget;
  events: readonly CyclesEvent[];
  isCut: boolean;
}): ReactNode {
  if (events.length === 0) {
    return (
      <Empty
        title={
          isCut
            ? `None of the newest ${COUNT.format(MOST_PAGES * PAGE_EVENTS)} events changed it`
            : `No event of the last ${DAYS} days is a change of it`
        }
      >
        Funding, grants and voids of credits, limits and freezes would be listed here. All events has the
        older ones. Other changes of credits have no event: the audit log has them.
      </Empty>
    );
  }
  return (
    <Table
      label="Changes of the budget"
      columns={['Changed', 'What', { right: 'Allocated before' }, { right: 'After' }, 'By', 'Reason']}
      items={events}
    >
      {({ event_id: id, event_type: type, timestamp, tenant_id: tenant, actor, data }) => (
        <tr key={id}>
          <td>
            <Time at={timestamp} />
          </td>
          <td>
            <Link to="/events" search={{ event: id }}>
              {/* A new period resets what is spent, as an operator can. */}
              {data['rollover_policy'] === undefined
                ? wordOf(type.replace(/^(budget|custom)\./, '').replace('.', ' '))
                : 'New period'}
            </Link>
            {CREDIT_AMOUNTS[type] !== undefined && (
              <div className="muted small">
                <Amount amount={data[CREDIT_AMOUNTS[type]] as Int64} unit={budget.unit} withUnit />
              </div>
            )}
          </td>
          {['previous_state', 'new_state'].map((state) => (
            <td key={state} className="right">
              <Figures data={data} state={state} unit={budget.unit} />
            </td>
          ))}
          <td style={{ minWidth: 130 }}>
            <Who type={actor?.type} tenant={tenant} id={actor?.key_id} />
          </td>
          <td style={{ overflowWrap: 'anywhere', minWidth: 120 }}>
            {typeof data['reason'] === 'string' ? data['reason'] : <span className="muted">–</span>}
          </td>
        </tr>
      )}
    </Table>
  );
}

type State = Partial<Record<(typeof SHOWN)[number], Int64>> | undefined;
const SHOWN = ['allocated', 'spent', 'debt'] as const;

/** What is allocated, or what else of the budget has changed. */
function Figures({
  data,
  state,
  unit,
}: {
  data: CyclesEvent['data'];
  state: string;
  unit: string;
}): ReactNode {
  const [before, after] = [data['previous_state'] as State, data['new_state'] as State];
  const changed = SHOWN.filter((name) => before?.[name] !== undefined && before[name] !== after?.[name]);
  const shown = (changed.length > 0 ? changed : SHOWN.slice(0, 1)).flatMap((name) => {
    const amount = (data[state] as State)?.[name];
    return amount === undefined ? [] : [{ name, amount }];
  });
  return shown.length === 0 ? (
    <span className="muted">–</span>
  ) : (
    shown.map(({ name, amount }) => (
      <div key={name}>
        {name !== 'allocated' && <span className="muted small">{name} </span>}
        <Amount amount={amount} unit={unit} />
      </div>
    ))
  );
}
