import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { Amount, unitWord } from '../../parts/amount';
import { Loaded } from '../../parts/loaded';
import { Panel } from '../../parts/panel';
import { Empty } from '../../parts/states';
import { Table } from '../../parts/table';
import { AsOf } from '../../parts/time';
import { MonthNote } from '../tenants/month-note';
import { nothingIn, useMonthOfTenants, useTenantSums } from '../tenants/sums';

const FIGURES = ['remaining', 'spent', 'reserved', 'allocated'] as const;
const COLUMNS = [
  'Unit',
  { right: 'Remaining' },
  { right: 'Spent' },
  { right: 'Held' },
  { right: 'Allocated' },
  { right: 'Charged in 30 days' },
] as const;

/** What a tenant has in all, and what it was charged. */
export function Figures({ id }: { id: string }): ReactNode {
  const { of, asOf, error, refetch } = useTenantSums([id]);
  const month = useMonthOfTenants(id);
  const charged = month?.of(id);
  return (
    <Panel
      title="Figures"
      className="span-12"
      flush
      aside={
        asOf !== undefined && (
          <>
            of its topmost budgets, <AsOf at={asOf} />
          </>
        )
      }
    >
      <MonthNote month={month} />
      <Loaded query={{ data: of(id), error, refetch }}>
        {(sums) => {
          const units = [...new Set([...sums, ...(charged ?? [])].map(({ unit }) => unit))];
          return units.length === 0 ? (
            <Empty title="No budgets were counted">Without one, nothing of it can be held or charged.</Empty>
          ) : (
            <Table label="Figures" columns={COLUMNS} items={units}>
              {(unit) => {
                const sum = sums.find((one) => one.unit === unit);
                const sumOfMonth = charged?.find((one) => one.unit === unit);
                return (
                  <tr key={unit}>
                    <td>
                      <Link to="/budgets" search={{ tenant_id: id, unit }}>
                        {unitWord(unit)}
                      </Link>
                    </td>
                    {FIGURES.map((figure) => (
                      <td key={figure} className="right">
                        {sum === undefined ? '–' : <Amount amount={sum[figure]} unit={unit} />}
                      </td>
                    ))}
                    <td className="right">
                      {sumOfMonth === undefined ? (
                        <span className="muted">{nothingIn(month)}</span>
                      ) : (
                        <Link to="/usage" search={{ tenant_id: id, unit }} title="What it was charged for">
                          <Amount amount={sumOfMonth.charged} unit={unit} />
                        </Link>
                      )}
                    </td>
                  </tr>
                );
              }}
            </Table>
          );
        }}
      </Loaded>
    </Panel>
  );
}
