import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { get } from '../api/client';
import { Amount } from './amount';
import { Panel } from './panel';
import { Scope } from './scope';
import { Table } from './table';
import { Time } from './time';

const EVERY_MS = 60_000;

/** The budgets whose credits end this week, of one tenant or of all; nothing where none does. */
export function EndingCredits({ tenantId }: { tenantId?: string }): ReactNode {
  const { data } = useQuery({
    queryKey: ['/ops/credits/ending', tenantId],
    queryFn: () => get('/ops/credits/ending', { tenant_id: tenantId }),
    refetchInterval: EVERY_MS,
  });
  if (data === undefined || (data.budgets.length === 0 && !data.has_more)) {
    return null;
  }
  return (
    <Panel
      title="Credits that end this week"
      className="span-12"
      flush
      aside={data.has_more ? `the first ${data.budgets.length} budgets` : undefined}
    >
      <Table
        label="Credits that end this week"
        columns={['Budget', { right: 'It loses at most' }, { right: 'Credits' }, 'First end']}
        items={data.budgets}
      >
        {({ scope, unit, remaining, credits, first_ends_at: endsAt }) => (
          <tr key={`${scope} ${unit}`}>
            <td>
              <Link to="/budgets/$unit" params={{ unit }} search={{ scope }}>
                <Scope path={scope} />
              </Link>
            </td>
            <td className="right">
              <Amount amount={remaining.amount} unit={unit} withUnit />
            </td>
            <td className="right num">{credits}</td>
            <td>
              <Time at={endsAt} />
            </td>
          </tr>
        )}
      </Table>
    </Panel>
  );
}
