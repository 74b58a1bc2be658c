import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Schema } from '../../api/operations';
import { Amount } from '../../parts/amount';
import { Scope } from '../../parts/scope';
import { Table } from '../../parts/table';
import { formatDuration, Time } from '../../parts/time';

type Expiration = Schema<'Expiration'>;

export function ExpirationTable({ rows }: { rows: readonly Expiration[] }): ReactNode {
  return (
    <Table
      label="Expirations"
      columns={['Time', 'Reservation', 'Tenant', { right: 'Returned' }, { right: 'Lease' }, 'Why']}
      items={rows}
    >
      {(row) => <ExpirationRow key={row.event_id} row={row} />}
    </Table>
  );
}

function ExpirationRow({ row }: { row: Expiration }): ReactNode {
  const { unit = '', amount, ttl_ms: ttlMs, extensions_used: extensions = 0 } = row;
  return (
    <tr>
      <td>
        <Time at={row.at_ms} />
      </td>
      <td>
        <Link to="/reservations/$id" params={{ id: row.reservation_id }} className="id">
          {row.reservation_id}
        </Link>
        {row.scope !== undefined && (
          <div className="small">
            <Scope path={row.scope} />
          </div>
        )}
      </td>
      <td className="id">
        <Link to="/reservations" search={{ tenant: row.tenant_id }}>
          {row.tenant_id}
        </Link>
      </td>
      <td className="right">
        {amount === undefined ? (
          <span className="muted">nothing</span>
        ) : (
          <Amount amount={amount} unit={unit} withUnit />
        )}
      </td>
      <td className="right num">{ttlMs === undefined ? '–' : formatDuration(ttlMs)}</td>
      <td>
        {row.state === 'QUARANTINED'
          ? (row.reason ?? 'damaged').toLowerCase().replaceAll('_', ' ')
          : `not settled${extendedWords(extensions)}`}
      </td>
    </tr>
  );
}

function extendedWords(times: number): string {
  return times === 0 ? '' : times === 1 ? ', extended once' : `, extended ${times} times`;
}
