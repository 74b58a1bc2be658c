import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { call, get } from '../../api/client';
import { readJson } from '../../api/json';
import type { Schema } from '../../api/operations';
import { queryClient, useMayChange } from '../../api/session';
import type { Webhook } from '../../api/types';
import { DELIVERIES } from '../../api/webhooks';
import { ChangeDialog } from '../../parts/change-dialog';
import { EventLink } from '../../parts/event-link';
import { Loaded } from '../../parts/loaded';
import { SidePanel } from '../../parts/side-panel';
import { Empty } from '../../parts/states';
import { Status } from '../../parts/status';
import { Table } from '../../parts/table';
import { formatDuration, Time } from '../../parts/time';
import { Tree } from '../../parts/tree';

const DELIVERY = '/ops/webhook-deliveries/{delivery_id}';
const EVERY_MS = 3000;

type Details = Schema<'WebhookDeliveryDetails'>;

/** One delivery: what is sent, what each attempt brought, and sending it again. */
export function DeliveryPanel({
  id,
  webhook,
  open,
  close,
}: {
  id: string;
  webhook: Webhook;
  /** Shows another delivery. */
  open: (id: string) => void;
  close: () => void;
}): ReactNode {
  const [isResending, setResending] = useState(false);
  const mayChange = useMayChange();
  const details = useQuery({
    queryKey: [DELIVERY, id],
    queryFn: () => get(DELIVERY, { delivery_id: id }),
    refetchInterval: ({ state }) =>
      state.data?.status === 'PENDING' || state.data?.status === 'RETRYING' ? EVERY_MS : false,
  });
  return (
    <SidePanel title={details.data?.event_type ?? 'Delivery'} close={close}>
      <Loaded query={details} height={300}>
        {(delivery) => (
          <div className="stack">
            <Facts delivery={delivery} />
            {mayChange && (
              <div className="row">
                <Button
                  size="compact-sm"
                  variant="default"
                  disabled={webhook.status !== 'ACTIVE' || delivery.request === undefined}
                  onClick={() => setResending(true)}
                >
                  Send again
                </Button>
                {webhook.status !== 'ACTIVE' && (
                  <span className="muted small">Resume the subscription first.</span>
                )}
              </div>
            )}
            <Attempts delivery={delivery} />
            <Request delivery={delivery} />
          </div>
        )}
      </Loaded>
      {isResending && <Resend id={id} sent={open} close={() => setResending(false)} />}
    </SidePanel>
  );
}

function Facts({ delivery }: { delivery: Details }): ReactNode {
  const { delivery_id: id, event_id: event, status, next_retry_at: next } = delivery;
  return (
    <dl className="facts">
      <dt>Status</dt>
      <dd>
        <Status value={status} />
      </dd>
      <dt>Delivery</dt>
      <dd className="id">{id}</dd>
      <dt>Event</dt>
      <dd>
        <EventLink id={event} />
      </dd>
      {next !== undefined && (
        <>
          <dt>Next try</dt>
          <dd>
            <Time at={next} />
          </dd>
        </>
      )}
    </dl>
  );
}

function Attempts({ delivery }: { delivery: Details }): ReactNode {
  const { attempts_made: made, attempts, error_message: problem, answer_text: text } = delivery;
  return (
    <section aria-label="Attempts" className="stack" style={{ gap: 6 }}>
      <h3>Attempts</h3>
      {made.length === 0 ? (
        <Empty
          title={
            attempts > 0
              ? 'Its attempts are not known any more'
              : delivery.status === 'FAILED'
                ? 'It was never tried'
                : 'It was not tried yet'
          }
        >
          {problem}
        </Empty>
      ) : (
        <Table label="Attempts" columns={['Sent', 'Answer', { right: 'After' }]} items={[...made].reverse()}>
          {({
            attempted_at: at,
            response_status: answer,
            response_time_ms: tookMs,
            error_message: error,
          }) => (
            <tr key={`${at} ${tookMs}`}>
              <td>
                <Time at={at} />
              </td>
              <td>
                <span className={`pill num ${error === undefined ? 'good' : 'bad'}`}>{answer ?? 'None'}</span>
                {error !== undefined && <div className="muted small id">{error}</div>}
              </td>
              <td className="right num">{formatDuration(tookMs)}</td>
            </tr>
          )}
        </Table>
      )}
      {text === undefined &&
        made.at(-1)?.error_message !== undefined &&
        made.at(-1)?.response_status !== undefined && (
          <p className="muted small">
            What the endpoint wrote was empty, or is not kept any more: only that of the last 100 refused
            deliveries is.
          </p>
        )}
      {text !== undefined && (
        <>
          <h3>The last answer</h3>
          <pre className="answer" tabIndex={0} aria-label="The last answer">
            {text}
          </pre>
        </>
      )}
    </section>
  );
}

function Request({ delivery: { request } }: { delivery: Details }): ReactNode {
  if (request === undefined) {
    return <p className="muted">The event is not in the log any more, so what was sent is not known.</p>;
  }
  const { url, headers, body } = request;
  return (
    <section aria-label="Request" className="stack" style={{ gap: 6 }}>
      <h3>Request</h3>
      <p className="id">POST {url ?? 'to a subscription that was deleted'}</p>
      <Tree value={headers} />
      <p className="muted small">
        And the own headers of the subscription, with the timestamp and the signatures of each attempt.
      </p>
      <h3>Body</h3>
      <Tree value={readJson(body) as Readonly<Record<string, unknown>>} />
    </section>
  );
}

function Resend({
  id,
  sent,
  close,
}: {
  id: string;
  sent: (id: string) => void;
  close: () => void;
}): ReactNode {
  const resend = async (): Promise<void> => {
    const { delivery_id: made } = await call('post', `${DELIVERY}/resend`, { delivery_id: id });
    await queryClient.invalidateQueries({ queryKey: [DELIVERIES] });
    sent(made);
  };
  return (
    <ChangeDialog title="Send the event again" action="Send" change={resend} close={close}>
      <p>
        The endpoint gets the event once more, with the same webhook-id, in its turn after what waits. It is a
        new delivery with attempts of its own.
      </p>
    </ChangeDialog>
  );
}
