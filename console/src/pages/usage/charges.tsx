import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { get } from '../../api/client';
import { Amount } from '../../parts/amount';
import { COUNT } from '../../parts/numbers';
import { Loaded } from '../../parts/loaded';
import { Panel } from '../../parts/panel';
import { Scope } from '../../parts/scope';
import { Table } from '../../parts/table';
import { Time } from '../../parts/time';
import { amountOf, type UsageRow, USAGE } from './usage';

const LISTED = 100;
/** With the first two, each charge has a row. */
export const CHARGE_KEYS = 'recorded_at,record_id,scope,action_kind,action_name';

/** The charges that a report is made of, the last ones first. */
export function Charges({
  query,
  unit,
  file,
}: {
  /** What the report was asked for. */
  query: object;
  unit: string;
  /** Where all of them can be had. */
  file: string;
}): ReactNode {
  const asked = { ...query, unit, group_by: CHARGE_KEYS, order: '-recorded_at', limit: LISTED };
  const charges = useQuery({ queryKey: [USAGE, 'charges', asked], queryFn: () => get(USAGE, asked) });
  return (
    <Panel
      title="The charges"
      flush
      aside={
        charges.data?.has_more === true && (
          <>
            the last {LISTED}; <a href={file}>download more</a>
          </>
        )
      }
    >
      <Loaded query={charges}>
        {({ rows }) => (
          <Table
            label="The charges"
            columns={[
              'Recorded',
              'What was charged',
              'Action',
              { right: 'Charged' },
              { right: 'Tokens in / out' },
            ]}
            items={rows}
          >
            {(row) => <Charge key={`${row.recorded_at} ${row.record_id}`} row={row} unit={unit} />}
          </Table>
        )}
      </Loaded>
    </Panel>
  );
}

function Charge({ row, unit }: { row: UsageRow; unit: string }): ReactNode {
  const { record_id: id = '', scope } = row;
  return (
    <tr>
      <td>
        <Time at={row.recorded_at ?? 0} />
      </td>
      <td>
        {id.startsWith('rsv_') ? (
          <Link to="/reservations/$id" params={{ id }} className="id">
            {id}
          </Link>
        ) : (
          <Link to="/events" search={{ event: id }} className="id">
            {id}
          </Link>
        )}
        {scope !== undefined && (
          <div className="small">
            <Scope path={scope} />
          </div>
        )}
      </td>
      <td>
        {row.action_kind} <span className="muted">{row.action_name}</span>
      </td>
      <td className="right">
        <Amount amount={amountOf(row.charged)} unit={unit} withUnit />
      </td>
      <td className="right num">
        {COUNT.format(amountOf(row.tokens_input))} / {COUNT.format(amountOf(row.tokens_output))}
      </td>
    </tr>
  );
}
