import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { get } from '../../api/client';
import type { Delivery, Webhook } from '../../api/types';
import { DELIVERIES, SYSTEM_OWNER, WEBHOOKS } from '../../api/webhooks';
import type { ReservationHistory } from './history';
import { Status } from '../../parts/status';
import { Time } from '../../parts/time';

const EVERY_MS = 5000;
/** Each subscription is a request. */
const MOST_ASKED = 20;
/** A delivery is queued soon after its event. */
const QUEUED_WITHIN_MS = 600_000;

interface Told {
  readonly webhook: Webhook;
  readonly delivery: Delivery;
}

type EndEvent = NonNullable<NonNullable<ReservationHistory['end']>['event']>;

/** The deliveries of an event to the subscriptions of its tenant and of the system. */
async function readTold(
  tenant: string,
  { event_id: eventId, event_type: type = '' }: EndEvent,
  atMs: number,
) {
  const lists = await Promise.all(
    [tenant, SYSTEM_OWNER].map((owner) => get(WEBHOOKS, { tenant_id: owner, limit: MOST_ASKED })),
  );
  const [category = ''] = type.split('.');
  const asked = lists
    .flatMap(({ subscriptions }) => subscriptions)
    .filter(
      (webhook) =>
        webhook.event_types.includes(type) || webhook.event_categories.some((one) => one === category),
    );
  const told = await Promise.all(
    asked.slice(0, MOST_ASKED).map(async (webhook): Promise<Told[]> => {
      const { deliveries } = await get(DELIVERIES, {
        subscription_id: webhook.subscription_id,
        from: new Date(atMs - 1000).toISOString(),
        to: new Date(atMs + QUEUED_WITHIN_MS).toISOString(),
        limit: 100,
      });
      return deliveries
        .filter(({ event_id: id }) => id === eventId)
        .map((delivery) => ({ webhook, delivery }));
    }),
  );
  return told.flat();
}

const isOpen = ({ delivery: { status } }: Told): boolean => status === 'PENDING' || status === 'RETRYING';

/** Who was told of the end, and when it was delivered. */
export function ToldTo({
  tenant,
  event,
  atMs,
}: {
  tenant: string;
  event: EndEvent;
  atMs: number;
}): ReactNode {
  const { data } = useQuery({
    queryKey: ['told', event.event_id],
    queryFn: () => readTold(tenant, event, atMs),
    refetchInterval: ({ state }) => (state.data?.some(isOpen) === true ? EVERY_MS : false),
  });
  return (
    <div className="small" style={{ minHeight: 20 }}>
      {data?.length === 0 && <span className="muted">No subscription was told of it.</span>}
      {data?.map(({ webhook: { subscription_id: id, url }, delivery }) => (
        <div key={delivery.delivery_id} className="row">
          <Status value={delivery.status} />
          <Link to="/webhooks/$id" params={{ id }} className="id">
            {url}
          </Link>
          <span className="muted">
            {delivery.completed_at === undefined ? 'not delivered yet' : <Time at={delivery.completed_at} />}
          </span>
        </div>
      ))}
    </div>
  );
}
