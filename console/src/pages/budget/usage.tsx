import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { serverNowMs } from '../../api/server-time';
import type { Budget } from '../../api/types';
import { Amount } from '../../parts/amount';
import { Panel } from '../../parts/panel';
import { Empty } from '../../parts/states';
import { colourOf, UsageChart } from '../usage/chart';
import { Incomplete, nothingOf } from '../usage/incomplete';
import { LoadedUsage } from '../usage/report';
import { dayAt, lastDays, nameOf, readUsage, spanOf, USAGE, ZONE } from '../usage/usage';

const DAYS = 30;
const EVERY_MS = 60_000;

/** What was charged here and below in the last days, by kind of action. */
export function BudgetUsage({ budget: { scope, unit } }: { budget: Budget }): ReactNode {
  const days = lastDays(DAYS, dayAt(serverNowMs(), ZONE));
  const span = { ...spanOf(days, ZONE), zone: ZONE };
  const usage = useQuery({
    queryKey: [USAGE, 'budget', span, scope, unit],
    queryFn: () => readUsage({ ...span, by: ['action_kind'], unit, filters: { scope, unit } }),
    refetchInterval: EVERY_MS,
  });
  return (
    <Panel
      title={`Charged in the last ${DAYS} days, with the scopes below`}
      className="span-12"
      aside={
        <Link to="/usage" search={{ scope, unit }}>
          Usage
        </Link>
      }
    >
      <LoadedUsage usage={usage} height={280}>
        {(read) => (
          <div className="stack">
            <Incomplete report={read.report} from={span.from} to={span.to} />
            {read.total === undefined ? (
              <Empty title={nothingOf(read.report, span.from, span.to)}>
                Charges appear about a minute after a reservation has ended.
              </Empty>
            ) : (
              <>
                <UsageChart days={days} usage={read} nameOf={nameOf} />
                <ul className="amounts" aria-label="Charged by kind of action">
                  {read.top.map((series, place) => (
                    <li key={nameOf(series)}>
                      <span className="swatch" style={{ background: colourOf(place) }} />
                      {nameOf(series)} <Amount amount={BigInt(series.row.charged)} unit={unit} />
                    </li>
                  ))}
                </ul>
              </>
            )}
          </div>
        )}
      </LoadedUsage>
    </Panel>
  );
}
