import { Button, TextInput } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { call, get } from '../../api/client';
import { useMayChange } from '../../api/session';
import { Amount } from '../../parts/amount';
import { Panel } from '../../parts/panel';
import { Scope } from '../../parts/scope';
import { Empty, Failure, Loading } from '../../parts/states';
import { wordOf } from '../../parts/status';
import { Table } from '../../parts/table';
import { Time } from '../../parts/time';

const EVERY_MS = 10_000;

/** Reservations that could not be settled, what is wrong with each, and the decision about it. */
export function Quarantine({
  chosen,
  choose,
}: {
  chosen: string | undefined;
  choose: (reservationId: string | undefined) => void;
}): ReactNode {
  const { data, error, refetch } = useQuery({
    queryKey: ['quarantine'],
    queryFn: () => get('/ops/quarantine', { limit: 200 }),
    refetchInterval: EVERY_MS,
  });
  return (
    <Panel title="Quarantine" className="span-12" flush>
      {error && data === undefined ? (
        <Failure error={error} retry={() => void refetch()} />
      ) : data === undefined ? (
        <Loading />
      ) : data.entries.length === 0 ? (
        <Empty title="Nothing is in quarantine">
          Reservations whose records are damaged would wait here for a decision.
        </Empty>
      ) : (
        <Table
          label="Quarantine"
          columns={['Reservation', 'Reason', 'Since', { hidden: 'Decide' }]}
          items={data.entries}
        >
          {({ reservation_id: id, reason, quarantined_at_ms: since }) => (
            <tr key={id}>
              <td className="id">{id}</td>
              <td>{reason}</td>
              <td>
                <Time at={since} />
              </td>
              <td className="right">
                <Button
                  size="compact-sm"
                  variant="default"
                  aria-expanded={id === chosen}
                  aria-label={`Inspect ${id}`}
                  onClick={() => choose(id === chosen ? undefined : id)}
                >
                  Inspect
                </Button>
              </td>
            </tr>
          )}
        </Table>
      )}
      {data?.has_more === true && <p className="muted small panel-body">Only the newest 200 are shown.</p>}
      {chosen !== undefined && <Inspection key={chosen} id={chosen} />}
    </Panel>
  );
}

function Inspection({ id }: { id: string }): ReactNode {
  const { data, error } = useQuery({
    queryKey: ['quarantine', id],
    queryFn: () => get('/ops/quarantine/{reservation_id}', { reservation_id: id }),
  });
  const queries = useQueryClient();
  const mayChange = useMayChange();
  const [reason, setReason] = useState('');
  const decide = useMutation({
    mutationFn: (action: 'retry' | 'release') =>
      call(
        'post',
        '/ops/quarantine/{reservation_id}/decide',
        { reservation_id: id },
        { action, ...(reason === '' ? {} : { reason }) },
      ),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ['quarantine'], exact: true });
      void queries.invalidateQueries({ queryKey: ['sweeper'] });
    },
  });
  if (decide.data !== undefined) {
    return (
      <div className="panel-body" role="status">
        <span className="pill good">{wordOf(decide.data.outcome)}</span> <span className="id">{id}</span>{' '}
        {decide.data.detail}
      </div>
    );
  }
  if (data === undefined) {
    return <div className="panel-body">{error === null ? <Loading /> : <Failure error={error} />}</div>;
  }
  return (
    <div className="panel-body stack">
      <dl className="facts">
        <dt>Reservation</dt>
        <dd className="id">{id}</dd>
        <dt>What is wrong</dt>
        <dd>{data.defect ?? 'nothing any more: a retry will settle it'}</dd>
        <dt>A release returns</dt>
        <dd>
          {data.returns.length === 0 && 'nothing'}
          {data.returns.map(({ scope, unit, amount }) => (
            <div key={`${scope} ${unit}`}>
              <Amount amount={amount} unit={unit} withUnit /> to <Scope path={scope} />
            </div>
          ))}
          {data.keeps.map(({ scope, reason: why }) => (
            <div key={scope} className="muted">
              nothing to <Scope path={scope} />: {why}
            </div>
          ))}
        </dd>
        <dt>Stored record</dt>
        <dd className="id small">
          {Object.entries(data.record).map(([field, value]) => (
            <div key={field}>
              <span className="muted">{field}</span> {value}
            </div>
          ))}
        </dd>
      </dl>
      {decide.error !== null && <Failure error={decide.error} />}
      {mayChange && (
        <div className="row" style={{ alignItems: 'flex-end' }}>
          <TextInput
            label="Reason, for the audit log"
            value={reason}
            maxLength={256}
            onChange={(event) => setReason(event.currentTarget.value)}
            style={{ flex: '1 1 260px', maxWidth: 420 }}
          />
          <Button variant="default" loading={decide.isPending} onClick={() => decide.mutate('retry')}>
            Judge it again
          </Button>
          <Button
            variant="default"
            c="var(--bad)"
            loading={decide.isPending}
            onClick={() => decide.mutate('release')}
          >
            Release it as it is
          </Button>
        </div>
      )}
    </div>
  );
}
