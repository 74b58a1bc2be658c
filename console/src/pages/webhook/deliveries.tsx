import type { ReactNode } from 'react';
import { useList } from '../../api/list';
import type { Delivery } from '../../api/types';
import { DELIVERIES } from '../../api/webhooks';
import { ChoiceFilter } from '../../parts/filters';
import { Listing } from '../../parts/loaded';
import { Panel } from '../../parts/panel';
import { Empty } from '../../parts/states';
import { Status } from '../../parts/status';
import { Table } from '../../parts/table';
import { formatDuration, Time } from '../../parts/time';

const EVERY_MS = 3000;
const PAGE_ROWS = 25;
const STATUSES = { PENDING: 'Pending', SUCCESS: 'Success', RETRYING: 'Retrying', FAILED: 'Failed' };

/** The deliveries of a subscription, newest first. */
export function Deliveries({
  id,
  status,
  open,
  setStatus,
}: {
  id: string;
  /** Shows the details of a delivery. */
  open: (id: string) => void;
  status: string | undefined;
  setStatus: (status: string | undefined) => void;
}): ReactNode {
  const list = useList(DELIVERIES, { subscription_id: id, status }, ({ deliveries }) => deliveries, {
    limit: PAGE_ROWS,
    everyMs: EVERY_MS,
  });
  return (
    <Panel title="Deliveries" className="span-12" flush>
      <div className="filters panel-body" style={{ margin: 0 }}>
        <ChoiceFilter label="Status" value={status} choices={STATUSES} onChange={setStatus} />
      </div>
      <Listing
        list={list}
        height={240}
        empty={
          status === undefined ? (
            <Empty title="Nothing was delivered yet">
              Send a test event, or replay events from before the subscription.
            </Empty>
          ) : (
            <Empty title="No delivery is in this state">Choose another status.</Empty>
          )
        }
      >
        {(deliveries) => (
          <Table
            label="Deliveries"
            columns={['Event', 'Status', { right: 'Attempts' }, 'Answer', 'First attempt', 'Next try']}
            items={deliveries}
          >
            {(delivery) => <DeliveryRow key={delivery.delivery_id} delivery={delivery} open={open} />}
          </Table>
        )}
      </Listing>
    </Panel>
  );
}

function DeliveryRow({ delivery, open }: { delivery: Delivery; open: (id: string) => void }): ReactNode {
  const { attempts, next_retry_at: nextAt } = delivery;
  return (
    <tr>
      <td>
        <button
          type="button"
          className="row-button"
          aria-haspopup="dialog"
          onClick={() => open(delivery.delivery_id)}
        >
          {delivery.event_type}
        </button>
        <div className="muted small id">{delivery.event_id}</div>
      </td>
      <td>
        <Status value={delivery.status} />
      </td>
      <td className="right num">{attempts}</td>
      <td style={{ minWidth: 220 }}>
        <Answer delivery={delivery} />
      </td>
      <td>{attempts === 0 ? <span className="muted">–</span> : <Time at={delivery.attempted_at} />}</td>
      <td>{nextAt === undefined ? <span className="muted">–</span> : <Time at={nextAt} clock />}</td>
    </tr>
  );
}

/** What to say of a delivery without an attempt. */
const neverTried = ({ status }: Pick<Delivery, 'status'>): string =>
  status === 'FAILED' ? 'never tried' : 'not tried yet';

/** What the endpoint answered to the last attempt. */
function Answer({ delivery }: { delivery: Delivery }): ReactNode {
  const { response_status: status, response_time_ms: tookMs, error_message: problem } = delivery;
  if (delivery.attempts === 0) {
    return (
      <>
        <span className="muted">{neverTried(delivery)}</span>
        {problem !== undefined && <div className="muted small">{problem}</div>}
      </>
    );
  }
  return (
    <>
      <span className="num">
        {status ?? 'none'}
        {tookMs !== undefined && <span className="muted"> in {formatDuration(tookMs)}</span>}
      </span>
      {problem !== undefined && problem !== `the endpoint answered ${status}` && (
        <div className="muted small id">{problem}</div>
      )}
    </>
  );
}
