import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { get } from '../../api/client';
import { KeyName } from '../../parts/key-name';
import { SameCause } from '../../parts/same-cause';
import { SidePanel } from '../../parts/side-panel';
import { Empty, Failure, Loading } from '../../parts/states';
import { Time } from '../../parts/time';
import { Tree } from '../../parts/tree';
import { Answer } from './answer';
import { type AuditRow, hasTenant, ownerOf, queryOfRow } from './row';

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
  const { data, error, refetch } = useQuery({
    queryKey: ['/v1/admin/audit/logs', 'one', id],
    queryFn: async () => (await get('/v1/admin/audit/logs', query ?? {})).logs[0] ?? null,
    enabled: query !== undefined,
    // Rows do not change.
    staleTime: Infinity,
    ...(known === undefined ? {} : { initialData: known }),
  });
  return (
    <SidePanel title={data?.operation ?? 'Row of the audit log'} close={close}>
      {data ? (
        <Details row={data} />
      ) : data === null || query === undefined ? (
        <Empty title="There is no such row">Its retention may have ended.</Empty>
      ) : error ? (
        <Failure error={error} retry={() => void refetch()} />
      ) : (
        <Loading height={300} />
      )}
    </SidePanel>
  );
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
        <Resource row={row} />
        <dt>Key</dt>
        <dd>
          <KeyName id={row.key_id} />
        </dd>
        <dt>From</dt>
        <dd className="id">{row.source_ip ?? '–'}</dd>
        <dt>Client</dt>
        <dd style={{ overflowWrap: 'anywhere' }}>{row.user_agent ?? '–'}</dd>
        <SameCause
          request={row.request_id}
          trace={row.trace_id}
          correlation={textOf(row.metadata?.['correlation_id'])}
        />
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
