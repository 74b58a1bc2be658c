import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { useList } from '../../api/list';
import { useSession } from '../../api/session';
import { Amount } from '../../parts/amount';
import { Listing } from '../../parts/loaded';
import { Scope } from '../../parts/scope';
import { Empty } from '../../parts/states';
import { Table } from '../../parts/table';
import { Time } from '../../parts/time';

const EVERY_MS = 5000;

/** The live holds of all tenants, by when they expire. */
export function LiveHolds({ overdue }: { overdue: boolean }): ReactNode {
  const isOfAll = useSession().session?.tenants === undefined;
  const list = useList('/ops/holds', overdue ? { overdue } : {}, ({ holds }) => holds, { everyMs: EVERY_MS });
  return (
    <Listing
      list={list}
      empty={
        overdue ? (
          <Empty title="No hold is overdue">The sweeper has expired all whose deadline has passed.</Empty>
        ) : (
          <Empty title="Nothing is held">
            {isOfAll ? 'No tenant' : 'None of your tenants'} has a live reservation that expires. Choose a
            tenant for those that have ended, or that wait for a cleanup.
          </Empty>
        )
      }
    >
      {(holds) => (
        <Table
          label="Live holds of all tenants"
          columns={['Reservation', { right: 'Held' }, 'Expires', 'Created', 'Tenant']}
          items={holds}
        >
          {(hold) => (
            <tr key={hold.reservation_id}>
              <td>
                <Link to="/reservations/$id" params={{ id: hold.reservation_id }} className="id">
                  {hold.reservation_id}
                </Link>
                <div className="small">
                  <Scope path={hold.scope} />
                </div>
              </td>
              <td className="right">
                <Amount amount={hold.amount.amount} unit={hold.amount.unit} withUnit />
              </td>
              <td>
                <Time at={hold.reclaim_at_ms} />
              </td>
              <td>
                <Time at={hold.created_at_ms} />
              </td>
              <td className="id">
                <Link to="/tenants/$id" params={{ id: hold.tenant_id }}>
                  {hold.tenant_id}
                </Link>
              </td>
            </tr>
          )}
        </Table>
      )}
    </Listing>
  );
}
