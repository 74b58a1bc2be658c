import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { get } from '../../api/client';
import { Loaded } from '../../parts/loaded';
import { SidePanel } from '../../parts/side-panel';
import { Status } from '../../parts/status';
import { Time } from '../../parts/time';
import { Revoke } from './keys';
import type { ApiKey } from './key-form';

/** One API key: whose it is, what it may do and has done, and its end. */
export function KeyDetails({
  id,
  mayChange,
  close,
}: {
  id: string;
  mayChange: boolean;
  close: () => void;
}): ReactNode {
  const key = useQuery({
    queryKey: ['/ops/api-keys', id],
    queryFn: () => get('/ops/api-keys/{key_id}', { key_id: id }),
  });
  return (
    <SidePanel title={key.data?.name ?? 'API key'} close={close}>
      <Loaded query={key} height={300}>
        {(read) => <Details apiKey={read} mayChange={mayChange} />}
      </Loaded>
    </SidePanel>
  );
}

function Details({ apiKey, mayChange }: { apiKey: ApiKey; mayChange: boolean }): ReactNode {
  const [isRevoking, setRevoking] = useState(false);
  const { key_id: id, tenant_id: tenant, status, permissions, scope_filter: scopes } = apiKey;
  return (
    <div className="stack">
      {mayChange && status === 'ACTIVE' && (
        <div>
          <Button color="red.8" size="compact-sm" onClick={() => setRevoking(true)}>
            Revoke this key
          </Button>
        </div>
      )}
      <dl className="facts">
        <dt>Status</dt>
        <dd>
          <Status value={status} />
        </dd>
        <dt>Key</dt>
        <dd className="id">
          {id}, {apiKey.key_prefix}…
        </dd>
        <dt>Tenant</dt>
        <dd className="id">{tenant}</dd>
        <dt>Last used</dt>
        <dd>{apiKey.last_used_at === undefined ? 'not yet' : <Time at={apiKey.last_used_at} />}</dd>
        <dt>{apiKey.revoked_at === undefined ? 'Ends' : 'Revoked'}</dt>
        <dd>
          <Time at={apiKey.revoked_at ?? apiKey.expires_at} />
          {apiKey.revoked_reason !== undefined && <div className="muted small">{apiKey.revoked_reason}</div>}
        </dd>
        <dt>May</dt>
        <dd>{permissions.join(', ')}</dd>
        <dt>Only in scopes</dt>
        <dd className="id">{scopes.length === 0 ? 'all' : scopes.join(', ')}</dd>
        <dt>What it did</dt>
        <dd>
          <Link to="/audit" search={{ key_id: id }}>
            Audit rows
          </Link>
          {', '}
          <Link to="/requests" search={{ key_id: id }}>
            refused requests
          </Link>
          {status !== 'ACTIVE' && (
            <div className="muted small">
              Without those since it ended: they are among{' '}
              <Link to="/requests" search={{ error_code: 'UNAUTHORIZED' }} className="in-text">
                those without a valid key
              </Link>
              .
            </div>
          )}
        </dd>
      </dl>
      {isRevoking && <Revoke apiKey={apiKey} close={() => setRevoking(false)} />}
    </div>
  );
}
