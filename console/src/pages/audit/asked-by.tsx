import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { KeyName } from '../../parts/key-name';
import { SameCause } from '../../parts/same-cause';
import { type AuditRow, hasTenant, ownerOf } from './row';

type Asked = Pick<AuditRow, 'tenant_id' | 'key_id' | 'source_ip' | 'user_agent' | 'request_id' | 'trace_id'>;

/** Who made a request, from where, and what else came of it, among the facts of a row about it. */
export function AskedBy({ row, correlation }: { row: Asked; correlation: string | undefined }): ReactNode {
  return (
    <>
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
      <dt>From</dt>
      <dd className="id">{row.source_ip ?? '–'}</dd>
      <dt>Client</dt>
      <dd style={{ overflowWrap: 'anywhere' }}>{row.user_agent ?? '–'}</dd>
      <SameCause request={row.request_id} trace={row.trace_id} correlation={correlation} />
    </>
  );
}
