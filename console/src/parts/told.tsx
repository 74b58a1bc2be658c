import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { get } from '../api/client';
import type { Delivery } from '../api/types';
import { Loaded } from './loaded';
import { Status } from './status';
import { Time } from './time';

const EVERY_MS = 5000;

const isOpen = ({ status }: Delivery): boolean => status === 'PENDING' || status === 'RETRYING';

/** Who was told of an event, and when it was delivered. */
export function ToldTo({ event }: { event: string }): ReactNode {
  const told = useQuery({
    queryKey: ['/ops/events', event, 'deliveries'],
    queryFn: () => get('/ops/events/{event_id}/deliveries', { event_id: event }),
    refetchInterval: ({ state }) => (state.data?.deliveries.some(isOpen) === true ? EVERY_MS : false),
  });
  return (
    <div className="small" style={{ minHeight: 20 }}>
      <Loaded query={told} height={20}>
        {({ deliveries, subscriptions_looked_at: count, still_kept: isKept }) =>
          deliveries.length === 0 ? (
            <span className="muted">
              {!isKept
                ? 'The event is so old that deliveries of it are no longer kept: who was told of it is not known.'
                : count === 0
                  ? 'There is no subscription that could be told of it.'
                  : count === 1
                    ? 'The one subscription that there is was not told of it when it happened.'
                    : `None of the ${count} subscriptions that there are was told of it when it happened.`}
            </span>
          ) : (
            deliveries.map(
              ({ delivery_id: delivery, subscription_id: id, url, status, completed_at: at }) => (
                <div key={delivery} className="row" style={{ lineHeight: '26px' }}>
                  <Status value={status} />
                  <Link to="/webhooks/$id" params={{ id }} search={{ delivery }} className="id">
                    {url}
                  </Link>
                  <span className="muted">{at === undefined ? 'not delivered yet' : <Time at={at} />}</span>
                </div>
              ),
            )
          )
        }
      </Loaded>
    </div>
  );
}
