import { Button } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import { useMayChange } from '../../api/session';
import type { Budget } from '../../api/types';
import { Amount } from '../../parts/amount';
import { Loaded } from '../../parts/loaded';
import { Panel } from '../../parts/panel';
import { Time } from '../../parts/time';
import { ChangePeriod } from './change-period';
import { calendarOf, type Recurrence, useRecurrence, wordsOf } from './recurrence';

export const ROLLOVERS: Readonly<Record<Budget['rollover_policy'], string>> = {
  NONE: 'What is not spent is lost.',
  CARRY_FORWARD: 'What is not spent is carried over.',
  CAP_AT_ALLOCATED: 'What is not spent is carried over, at most one allocation.',
};

/** When the budget starts anew, with what, and what comes after. */
export function Period({ budget }: { budget: Budget }): ReactNode {
  const recurrence = useRecurrence(budget);
  const [isChanging, setChanging] = useState(false);
  const mayChange = useMayChange() && budget.status !== 'CLOSED' && recurrence.data !== undefined;
  return (
    <Panel
      title="Period"
      className="span-12"
      aside={
        mayChange && (
          <Button size="compact-xs" variant="default" onClick={() => setChanging(true)}>
            Change the period
          </Button>
        )
      }
    >
      <Loaded query={recurrence} height={40}>
        {(read) => <CurrentPeriod budget={budget} recurrence={read} />}
      </Loaded>
      {isChanging && recurrence.data !== undefined && (
        <ChangePeriod budget={budget} recurrence={recurrence.data} close={() => setChanging(false)} />
      )}
    </Panel>
  );
}

function CurrentPeriod({ budget, recurrence }: { budget: Budget; recurrence: Recurrence }): ReactNode {
  const { period_start: start, period_end: end, rollover_policy: policy, unit } = budget;
  if (start === undefined || end === undefined) {
    return <p>It has no period: what is spent stays spent.</p>;
  }
  const calendar = calendarOf(recurrence);
  const [, ...later] = recurrence.next_boundaries;
  return (
    <>
      <p>
        Period from <Time at={start} /> to <Time at={end} />. The next one starts with spent 0.{' '}
        {ROLLOVERS[policy]}
      </p>
      <p className="muted small">
        {calendar === undefined ? (
          'Each period is as long as the one before.'
        ) : (
          <>
            By the calendar: {wordsOf(calendar)}.
            {recurrence.period_allocated !== undefined && (
              <>
                {' '}
                Each period gets <Amount amount={recurrence.period_allocated.amount} unit={unit} withUnit />.
              </>
            )}{' '}
            Later ones begin{' '}
            {later.map((at, index) => (
              <span key={at}>
                {index > 0 && ', '}
                <Time at={at} />
              </span>
            ))}
            .
          </>
        )}
      </p>
    </>
  );
}
