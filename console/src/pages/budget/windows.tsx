import { Button } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import { useMayChange } from '../../api/session';
import type { Budget } from '../../api/types';
import { Amount } from '../../parts/amount';
import { Loaded } from '../../parts/loaded';
import { Panel } from '../../parts/panel';
import { Table } from '../../parts/table';
import { Time } from '../../parts/time';
import { ChangeWindows } from './change-windows';
import { type BudgetWindow, calendarOf, useWindows, wordsOf } from './recurrence';

/** The further limits of a budget, and what is used of them. */
export function Windows({ budget }: { budget: Budget }): ReactNode {
  const windows = useWindows(budget);
  const [isChanging, setChanging] = useState(false);
  const mayChange = useMayChange() && budget.status !== 'CLOSED' && windows.data !== undefined;
  const isEmpty = windows.data?.windows.length === 0;
  return (
    <Panel
      title="Windows"
      className="span-12"
      aside={
        mayChange && (
          <Button size="compact-xs" variant="default" onClick={() => setChanging(true)}>
            Change the windows
          </Button>
        )
      }
      flush={!isEmpty}
    >
      <Loaded query={windows} height={40}>
        {({ windows: items }) =>
          isEmpty ? (
            <p>It has no windows: only what remains in it limits what is used in a day or a week.</p>
          ) : (
            <WindowTable budget={budget} items={items} />
          )
        }
      </Loaded>
      {isChanging && windows.data !== undefined && (
        <ChangeWindows budget={budget} windows={windows.data.windows} close={() => setChanging(false)} />
      )}
    </Panel>
  );
}

function WindowTable({ budget, items }: { budget: Budget; items: readonly BudgetWindow[] }): ReactNode {
  const { unit, reserved } = budget;
  const columns = [
    'Window',
    { right: 'Limit' },
    { right: 'Charged' },
    { right: 'Held' },
    { right: 'Remaining' },
  ];
  return (
    <Table label="Windows" columns={[...columns, 'Next begins', 'Calendar']} items={items}>
      {(window) => {
        const calendar = calendarOf(window);
        const amounts = [window.limit, window.spent, reserved, window.remaining];
        return (
          <tr key={window.name}>
            <td>{window.name}</td>
            {amounts.map(({ amount }, index) => (
              <td key={index} className="num right">
                <Amount amount={amount} unit={unit} />
              </td>
            ))}
            <td>
              <Time at={window.ends_at} />
            </td>
            <td className="muted">{calendar === undefined ? 'not known any more' : wordsOf(calendar)}</td>
          </tr>
        );
      }}
    </Table>
  );
}
