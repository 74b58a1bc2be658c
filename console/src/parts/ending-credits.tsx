import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { get } from '../api/client';
import { Amount } from './amount';
import { Loaded } from './loaded';
import { COUNT } from './numbers';
import { Panel } from './panel';
import { Scope } from './scope';
import { Empty } from './states';
import { Table } from './table';
import { Time } from './time';

const EVERY_MS = 60_000;

/** The budgets whose credits end this week, of one tenant or of all; nothing where none does. */
export function EndingCredits({ tenantId }: { tenantId?: string }): ReactNode {
  const ending = useQuery({
    queryKey: ['/ops/credits/ending', tenantId],
    queryFn: () => get('/ops/credits/ending', { tenant_id: tenantId }),
    refetchInterval: EVERY_MS,
  });
  const { data, error } = ending;
  if (data === undefined ? error === null : data.budgets.length === 0 && !data.has_more) {
    return null;
  }
  return (
    <Panel
      title="Credits that end this week"
      className="span-12"
      flush
      aside={data?.has_more && `not all: ${COUNT.format(data.examined)} budgets were looked at`}
    >
      <Loaded query={ending}>
        {({ budgets }) =>
          budgets.length === 0 ? (
            <Empty title="No budget that was looked at loses a credit">Some were not looked at.</Empty>
          ) : (
            <Table
              label="Credits that end this week"
              columns={['Budget', { right: 'It loses at most' }, { right: 'Credits' }, 'First end']}
              items={budgets}
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
          )
        }
      </Loaded>
    </Panel>
  );
}
