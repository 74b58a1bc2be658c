import type { ReactNode } from 'react';
import { useList } from '../../api/list';
import { type Delivery, type DeliveryList, webhookPath } from '../../api/webhooks';
import { ChoiceFilter } from '../../parts/filters';
import { MoreRows } from '../../parts/more-rows';
import { Panel } from '../../parts/panel';
import { Empty, Failure, Loading } from '../../parts/states';
import { Status } from '../../parts/status';
import { formatDuration, Time } from '../../parts/time';

const EVERY_MS = 3000;
const PAGE_ROWS = 25;
const STATUSES = { PENDING: 'Pending', SUCCESS: 'Success', RETRYING: 'Retrying', FAILED: 'Failed' };

/** The deliveries of a subscription, newest first. */
export function Deliveries({
  id,
  status,
  setStatus,
}: {
  id: string;
  status: string | undefined;
  setStatus: (status: string | undefined) => void;
}): ReactNode {
  const list = useList(
    `${webhookPath(id)}/deliveries`,
    { status },
    ({ deliveries }: DeliveryList) => deliveries,
    { limit: PAGE_ROWS, everyMs: EVERY_MS },
  );
  return (
    <Panel title="Deliveries" className="span-12" flush>
      <div className="filters panel-body" style={{ margin: 0 }}>
        <ChoiceFilter label="Status" value={status} choices={STATUSES} onChange={setStatus} />
      </div>
      {list.error && list.rows === undefined ? (
        <Failure error={list.error} retry={() => void list.refetch()} />
      ) : list.rows === undefined ? (
        <Loading height={240} />
      ) : list.rows.length === 0 ? (
        <Empty title={status === undefined ? 'Nothing was delivered yet' : 'No delivery is in this state'}>
          {status === undefined
            ? 'Send a test event, or replay events from before the subscription.'
            : 'Choose another status.'}
        </Empty>
      ) : (
        <>
          <DeliveryTable deliveries={list.rows} />
          <MoreRows
            shown={list.rows.length}
            hasMore={list.hasNextPage}
            isLoading={list.isFetchingNextPage}
            load={() => void list.fetchNextPage()}
          />
        </>
      )}
    </Panel>
  );
}

function DeliveryTable({ deliveries }: { deliveries: readonly Delivery[] }): ReactNode {
  return (
    <div className="table-wrap" role="region" aria-label="Deliveries" tabIndex={0}>
      <table className="table">
        <thead>
          <tr>
            <th>Event</th>
            <th>Status</th>
            <th className="right">Attempts</th>
            <th>Answer</th>
            <th>First attempt</th>
            <th>Next try</th>
          </tr>
        </thead>
        <tbody>
          {deliveries.map((delivery) => (
            <DeliveryRow key={delivery.delivery_id} delivery={delivery} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function DeliveryRow({ delivery }: { delivery: Delivery }): ReactNode {
  const { attempts, next_retry_at: nextAt } = delivery;
  return (
    <tr>
      <td>
        {delivery.event_type}
        <div className="muted small id">{delivery.event_id}</div>
      </td>
      <td>
        <Status value={delivery.status} />
      </td>
      <td className="right num">{attempts}</td>
      <td style={{ minWidth: 220 }}>
        <Answer delivery={delivery} />
      </td>
      <td>{attempts === 0 ? <span className="muted">queued</span> : <Time at={delivery.attempted_at} />}</td>
      <td>{nextAt === undefined ? <span className="muted">–</span> : <Time at={nextAt} clock />}</td>
    </tr>
  );
}

/** What the endpoint answered to the last attempt. */
function Answer({ delivery }: { delivery: Delivery }): ReactNode {
  const { response_status: status, response_time_ms: tookMs, error_message: problem } = delivery;
  if (delivery.attempts === 0 && problem === undefined) {
    return <span className="muted">–</span>;
  }
  return (
    <>
      <span className="num">
        {status ?? 'none'}
        {tookMs !== undefined && <span className="muted"> in {formatDuration(tookMs)}</span>}
      </span>
      {problem !== undefined && <div className="muted small id">{problem}</div>}
    </>
  );
}
