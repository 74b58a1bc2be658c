import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { get } from '../../api/client';
import { Amount } from '../../parts/amount';
import type { ReservationHistory } from './history';

const MOST = 200;

/** A set, and its other members: what the tenant reserved at the same instant, with the same set. */
export function SetMembers({ history, setId }: { history: ReservationHistory; setId: string }): ReactNode {
  const { tenant_id: tenant, created_at_ms: createdAtMs, reservation_id: own } = history;
  const at = new Date(createdAtMs).toISOString();
  const { data } = useQuery({
    queryKey: ['/v1/reservations', 'set', setId],
    queryFn: () => get('/v1/reservations', { tenant, from: at, to: at, limit: MOST }),
  });
  const others = (data?.reservations ?? []).filter(
    (one) => one.reservation_set_id === setId && one.reservation_id !== own,
  );
  return (
    <>
      <span className="id">{setId}</span>
      <ul className="hits" aria-label="Other members of the set">
        {others.map(({ reservation_id: id, reserved }) => (
          <li key={id} className="small">
            <Link to="/reservations/$id" params={{ id }} className="id">
              {id}
            </Link>{' '}
            <Amount amount={reserved.amount} unit={reserved.unit} withUnit />
          </li>
        ))}
      </ul>
    </>
  );
}
