import { Button, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { call, get, newIdempotencyKey } from '../../api/client';
import { queryClient, useMayChange } from '../../api/session';
import { Amount, formatAmount } from '../../parts/amount';
import { ChangeDialog } from '../../parts/change-dialog';
import { KeyName } from '../../parts/key-name';
import { Loaded } from '../../parts/loaded';
import { PageHead, Panel } from '../../parts/panel';
import { Scope } from '../../parts/scope';
import { Status } from '../../parts/status';
import { formatDuration } from '../../parts/time';
import { useTitle } from '../../parts/title';
import { Tree } from '../../parts/tree';
import { isIntact, refundableOf, type ReservationAnswer, type ReservationHistory } from './history';
import { Refund } from './refund';
import { SetMembers } from './set-members';
import { TimeLine } from './time-line';

const route = getRouteApi('/reservations/$id');
const EVERY_MS = 3000;

/** One reservation from its request to its end. */
export function ReservationPage(): ReactNode {
  const { id } = route.useParams();
  useTitle(id);
  const mayChange = useMayChange();
  const [isReleasing, setReleasing] = useState(false);
  const [isRefunding, setRefunding] = useState(false);
  const answer = useQuery({
    queryKey: ['/ops/reservations', id],
    queryFn: () => get('/ops/reservations/{reservation_id}', { reservation_id: id }),
    refetchInterval: ({ state }) => (state.data?.state === 'ACTIVE' ? EVERY_MS : false),
  });
  return (
    <Loaded query={answer} height={400}>
      {(history) =>
        isIntact(history) ? (
          <>
            <PageHead title={<span className="id">{history.reservation_id}</span>}>
              <Status value={history.state} />
              {mayChange && history.state === 'ACTIVE' && (
                <Button size="compact-sm" variant="default" onClick={() => setReleasing(true)}>
                  Release
                </Button>
              )}
              {mayChange && refundableOf(history) > 0n && (
                <Button size="compact-sm" variant="default" onClick={() => setRefunding(true)}>
                  Refund
                </Button>
              )}
            </PageHead>
            <div className="grid">
              <Panel title="What happened" className="span-7">
                <TimeLine history={history} />
              </Panel>
              <Request history={history} />
            </div>
            {isReleasing && <Release history={history} close={() => setReleasing(false)} />}
            {isRefunding && <Refund history={history} close={() => setRefunding(false)} />}
          </>
        ) : (
          <Damaged answer={history} />
        )
      }
    </Loaded>
  );
}

/** What is left of a reservation whose record cannot be read. */
function Damaged({ answer }: { answer: ReservationAnswer }): ReactNode {
  const { reservation_id: id, state, defect, quarantine, stored = {} } = answer;
  return (
    <>
      <PageHead title={<span className="id">{id}</span>}>
        <Status value={state} />
      </PageHead>
      <Panel title="The record is damaged">
        <dl className="facts">
          <dt>What is wrong</dt>
          <dd>{defect}</dd>
          <dt>Quarantine</dt>
          <dd>
            {quarantine?.waiting === true ? (
              <Link to="/sweeper" search={{ reservation: id }}>
                Waits for a decision: {quarantine.reason}
              </Link>
            ) : (
              'not in it: the sweeper puts it there once its deadline has passed'
            )}
          </dd>
          <dt>Stored record</dt>
          <dd>
            <Tree value={stored} />
          </dd>
        </dl>
      </Panel>
    </>
  );
}

function Request({ history }: { history: ReservationHistory }): ReactNode {
  const { request, reserved, scopes, tenant_id: tenant, charge_on_expiry: cost } = history;
  return (
    <Panel title="The request" className="span-5">
      <dl className="facts">
        <dt>Tenant</dt>
        <dd>
          <Link to="/tenants/$id" params={{ id: tenant }}>
            {tenant}
          </Link>
        </dd>
        <dt>Held</dt>
        <dd>
          <Amount amount={reserved.amount} unit={reserved.unit} withUnit exact />
        </dd>
        <dt>In scopes</dt>
        <dd>
          {scopes.map(({ scope, budgeted }) => (
            <div key={scope} style={{ lineHeight: '26px' }}>
              {budgeted ? (
                <Link to="/budgets/$unit" params={{ unit: reserved.unit }} search={{ scope }}>
                  <Scope path={scope} />
                </Link>
              ) : (
                <>
                  <Scope path={scope} /> <span className="muted">(no budget)</span>
                </>
              )}
            </div>
          ))}
        </dd>
        <dt>Action</dt>
        <dd>
          {request?.action?.kind} {request?.action?.name}
        </dd>
        <dt>Idempotency key</dt>
        <dd className="id">{request?.idempotency_key ?? '–'}</dd>
        {request?.reservation_set_id === undefined ? null : (
          <>
            <dt>Granted with the set</dt>
            <dd>
              <SetMembers history={history} setId={request.reservation_set_id} />
            </dd>
          </>
        )}
        <dt>API key</dt>
        <dd>
          <KeyName id={request?.key_id} />
        </dd>
        <dt>Lease and grace</dt>
        <dd>
          {request?.ttl_ms === undefined ? '–' : formatDuration(request.ttl_ms)},{' '}
          {request?.grace_period_ms === undefined ? '–' : formatDuration(request.grace_period_ms)}
        </dd>
        <dt>If it costs more</dt>
        <dd>{request?.overage_policy?.toLowerCase().replaceAll('_', ' ') ?? '–'}</dd>
        {cost !== undefined && (
          <>
            <dt>If it expires</dt>
            <dd>
              <Amount amount={cost.amount} unit={cost.unit} withUnit exact /> charged
            </dd>
          </>
        )}
      </dl>
    </Panel>
  );
}

function Release({ history, close }: { history: ReservationHistory; close: () => void }): ReactNode {
  const { reservation_id: id, reserved } = history;
  const [reason, setReason] = useState('');
  const [key] = useState(newIdempotencyKey);
  const release = async (): Promise<void> => {
    await call(
      'post',
      '/v1/reservations/{reservation_id}/release',
      { reservation_id: id },
      {
        idempotency_key: key,
        reason,
      },
    );
    await queryClient.invalidateQueries({ queryKey: ['/ops/reservations', id] });
  };
  return (
    <ChangeDialog
      title="Release the reservation"
      action="Release"
      danger
      change={release}
      close={close}
      blocked={reason === '' ? 'A reason is missing' : undefined}
      differences={[
        { label: 'State', before: 'Active', after: 'Released' },
        {
          label: 'Held',
          before: formatAmount(reserved.amount, reserved.unit),
          after: formatAmount(0, reserved.unit),
        },
      ]}
    >
      <p>
        The amount returns to every budget at once. A client that still works on it cannot commit any more.
      </p>
      <TextInput
        label="Reason"
        description="For the audit log"
        value={reason}
        maxLength={256}
        onChange={(event) => setReason(event.currentTarget.value)}
        data-autofocus
      />
    </ChangeDialog>
  );
}
