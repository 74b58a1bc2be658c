import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { get } from '../../api/client';
import { Loaded } from '../../parts/loaded';
import { SidePanel } from '../../parts/side-panel';
import { Empty } from '../../parts/states';
import { Time } from '../../parts/time';
import { Tree } from '../../parts/tree';
import { Answer } from './answer';
import { AskedBy } from './asked-by';
import { type AuditRow, queryOfRow } from './row';

/** One row of the audit log, by its id, with the way to what came of the same request. */
export function RowDetails({
  id,
  known,
  close,
}: {
  id: string;
  /** The row, if the list has it. */
  known: AuditRow | undefined;
  close: () => void;
}): ReactNode {
  const query = queryOfRow(id);
  const row = useQuery({
    queryKey: ['/v1/admin/audit/logs', 'one', id],
    queryFn: async () => (await get('/v1/admin/audit/logs', query ?? {})).logs[0] ?? null,
    enabled: query !== undefined,
    // Rows do not change.
    staleTime: Infinity,
    ...(known === undefined ? {} : { initialData: known }),
  });
  return (
    <SidePanel title={row.data?.operation ?? 'Row of the audit log'} close={close}>
      {query === undefined ? (
        <Gone />
      ) : (
        <Loaded query={row} height={300}>
          {(found) => (found === null ? <Gone /> : <Details row={found} />)}
        </Loaded>
      )}
    </SidePanel>
  );
}

function Gone(): ReactNode {
  return <Empty title="There is no such row">Its retention may have ended.</Empty>;
}

function Details({ row }: { row: AuditRow }): ReactNode {
  return (
    <div className="stack">
      <dl className="facts">
        <dt>Time</dt>
        <dd>
          <Time at={row.timestamp} />
        </dd>
        <dt>Answer</dt>
        <dd>
          <Answer row={row} />
        </dd>
        <dt>Row</dt>
        <dd className="id">{row.log_id}</dd>
        <Resource row={row} />
        <AskedBy row={row} correlation={textOf(row.metadata?.['correlation_id'])} />
      </dl>
      <section aria-label="Details" className="stack" style={{ gap: 6 }}>
        <h3>Details</h3>
        <Tree value={row.metadata ?? {}} />
      </section>
    </div>
  );
}

function Resource({ row: { resource_type: type, resource_id: id } }: { row: AuditRow }): ReactNode {
  if (type === undefined && id === undefined) {
    return null;
  }
  return (
    <>
      <dt>Resource</dt>
      <dd className="id">
        <span className="muted">{type} </span>
        {type === 'reservation' && id !== undefined ? (
          <Link to="/reservations/$id" params={{ id }}>
            {id}
          </Link>
        ) : (
          id
        )}
        {id !== undefined && (
          <div>
            <Link to="/audit" search={{ resource_id: id }}>
              Its rows
            </Link>
          </div>
        )}
      </dd>
    </>
  );
}

const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);
