import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { get } from '../../api/client';
import { KeyName } from '../../parts/key-name';
import { SameCause } from '../../parts/same-cause';
import { Scope } from '../../parts/scope';
import { SidePanel } from '../../parts/side-panel';
import { Empty, Failure, Loading } from '../../parts/states';
import { Time } from '../../parts/time';
import { Answer } from '../audit/answer';
import { hasTenant, ownerOf } from '../audit/row';
import type { RefusedRequest } from './page';

/** One refused request, by its id. */
export function RequestDetails({
  id,
  known,
  close,
}: {
  id: string;
  /** Its row, if the list has it. */
  known: RefusedRequest | undefined;
  close: () => void;
}): ReactNode {
  const { data, error, refetch } = useQuery({
    queryKey: ['/ops/requests', 'one', id],
    queryFn: async () => (await get('/ops/requests', { request_id: id })).requests[0] ?? null,
    ...(known === undefined ? {} : { initialData: known }),
  });
  return (
    <SidePanel title={data?.operation ?? 'Refused request'} close={close}>
      {data ? (
        <Details row={data} />
      ) : data === null ? (
        <Empty title="The request log does not have it">
          It has refusals of the last 24 hours, the last 1,000 of each tenant. An accepted request is among
          the{' '}
          <Link to="/events" search={{ request_id: id }}>
            events
          </Link>
          .
        </Empty>
      ) : error ? (
        <Failure error={error} retry={() => void refetch()} />
      ) : (
        <Loading height={300} />
      )}
    </SidePanel>
  );
}

function Details({ row }: { row: RefusedRequest }): ReactNode {
  return (
    <dl className="facts">
      <dt>Time</dt>
      <dd>
        <Time at={row.timestamp} />
      </dd>
      <dt>Answer</dt>
      <dd>
        <Answer row={row} />
      </dd>
      <dt>Why</dt>
      <dd>{row.message ?? '–'}</dd>
      {row.scope !== undefined && (
        <>
          <dt>Scope</dt>
          <dd>
            <Scope path={row.scope} />{' '}
            <Link to="/budgets" search={{ search: row.scope }}>
              Its budgets
            </Link>
          </dd>
        </>
      )}
      <dt>Tenant</dt>
      <dd className="id">
        {hasTenant(row) ? (
          <Link to="/tenants/$id" params={{ id: row.tenant_id }}>
            {row.tenant_id}
          </Link>
        ) : (
          ownerOf(row)
        )}
      </dd>
      <dt>Key</dt>
      <dd>
        <KeyName id={row.key_id} />
      </dd>
      {row.resource_id !== undefined && (
        <>
          <dt>Resource</dt>
          <dd className="id">{row.resource_id}</dd>
        </>
      )}
      <dt>From</dt>
      <dd className="id">{row.source_ip ?? '–'}</dd>
      <dt>Client</dt>
      <dd style={{ overflowWrap: 'anywhere' }}>{row.user_agent ?? '–'}</dd>
      <SameCause request={row.request_id} trace={row.trace_id} correlation={undefined} />
    </dl>
  );
}
