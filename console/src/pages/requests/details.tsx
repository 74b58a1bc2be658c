import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { get } from '../../api/client';
import { Loaded } from '../../parts/loaded';
import { Scope } from '../../parts/scope';
import { SidePanel } from '../../parts/side-panel';
import { Empty } from '../../parts/states';
import { Time } from '../../parts/time';
import { Answer } from '../audit/answer';
import { AskedBy } from '../audit/asked-by';
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
  const row = useQuery({
    queryKey: ['/ops/requests', 'one', id],
    queryFn: async () => (await get('/ops/requests', { request_id: id })).requests[0] ?? null,
    // Rows do not change.
    staleTime: Infinity,
    ...(known === undefined ? {} : { initialData: known }),
  });
  return (
    <SidePanel title={row.data?.operation ?? 'Refused request'} close={close}>
      <Loaded query={row} height={300}>
        {(found) =>
          found === null ? (
            <Empty title="The request log does not have it">
              It has refusals of the last 24 hours, the last 1,000 of each tenant, and not all of a flood.
              What came of an accepted request may be among its{' '}
              <Link to="/events" search={{ request_id: id }}>
                events
              </Link>{' '}
              and{' '}
              <Link to="/audit" search={{ request_id: id }}>
                audit rows
              </Link>
              ; most reserves and commits have neither.
            </Empty>
          ) : (
            <Details row={found} />
          )
        }
      </Loaded>
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
      {row.resource_id !== undefined && (
        <>
          <dt>Resource</dt>
          <dd className="id">{row.resource_id}</dd>
        </>
      )}
      <AskedBy row={row} correlation={undefined} />
    </dl>
  );
}
