import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';

/** Links to the events, and to the rows of the audit log, of the same request, trace and bulk change; as members of a list of facts. */
export function SameCause({
  request,
  trace,
  correlation,
}: {
  request: string | undefined;
  trace: string | undefined;
  correlation: string | undefined;
}): ReactNode {
  return (
    <>
      {request !== undefined && (
        <Cause label="Request" id={request}>
          <Both search={{ request_id: request }} />
        </Cause>
      )}
      {correlation !== undefined && (
        <Cause label="Correlation" id={correlation}>
          <Link to="/events" search={{ correlation_id: correlation }}>
            Events with this correlation id
          </Link>
        </Cause>
      )}
      {trace !== undefined && (
        <Cause label="Trace" id={trace}>
          <Both search={{ trace_id: trace }} />
        </Cause>
      )}
    </>
  );
}

function Cause({ label, id, children }: { label: string; id: string; children: ReactNode }): ReactNode {
  return (
    <>
      <dt>{label}</dt>
      <dd>
        <div className="id" style={{ overflowWrap: 'anywhere' }}>
          {id}
        </div>
        {children}
      </dd>
    </>
  );
}

function Both({ search }: { search: { request_id: string } | { trace_id: string } }): ReactNode {
  return (
    <>
      <Link to="/events" search={search}>
        Its events
      </Link>
      {', '}
      <Link to="/audit" search={search}>
        its audit rows
      </Link>
    </>
  );
}
