import { Button, TextInput } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import { call } from '../../api/client';
import { useList } from '../../api/list';
import type { Schema } from '../../api/operations';
import { queryClient } from '../../api/session';
import { ChangeDialog } from '../../parts/change-dialog';
import { Listing } from '../../parts/loaded';
import { Panel } from '../../parts/panel';
import { Empty } from '../../parts/states';
import { Status } from '../../parts/status';
import { Table } from '../../parts/table';
import { Time } from '../../parts/time';
import { CreateKey } from '../tenants/create-key';
import { API_KEYS } from './owned';

type ApiKey = Schema<'ApiKey'>;

/** The API keys of a tenant. */
export function Keys({
  tenantId,
  mayCreate,
  mayRevoke,
}: {
  tenantId: string;
  mayCreate: boolean;
  mayRevoke: boolean;
}): ReactNode {
  const [isCreating, setCreating] = useState(false);
  const [revoked, setRevoked] = useState<ApiKey>();
  const list = useList(API_KEYS, { tenant_id: tenantId }, ({ keys }) => keys);
  return (
    <Panel
      title="API keys"
      className="span-12"
      flush
      aside={
        mayCreate && (
          <Button size="compact-xs" variant="default" onClick={() => setCreating(true)}>
            Create key
          </Button>
        )
      }
    >
      <Listing
        list={list}
        height={120}
        empty={<Empty title="No keys">Without one, no client of this tenant can send anything.</Empty>}
      >
        {(keys) => (
          <Table
            label="API keys"
            columns={['Key', 'May', 'Only in scopes', 'Last used', 'Ends', 'Status', { hidden: 'Revoke' }]}
            items={keys}
          >
            {(key) => <KeyRow key={key.key_id} apiKey={key} {...(mayRevoke ? { revoke: setRevoked } : {})} />}
          </Table>
        )}
      </Listing>
      {isCreating && <CreateKey tenantId={tenantId} close={() => setCreating(false)} />}
      {revoked !== undefined && <Revoke apiKey={revoked} close={() => setRevoked(undefined)} />}
    </Panel>
  );
}

function KeyRow({ apiKey, revoke }: { apiKey: ApiKey; revoke?: (key: ApiKey) => void }): ReactNode {
  const { key_id: id, permissions, scope_filter: scopes, status, last_used_at: usedAt } = apiKey;
  return (
    <tr>
      <td>
        {apiKey.name}
        <div className="muted small id">
          {id}, {apiKey.key_prefix}…
        </div>
      </td>
      <td title={permissions.join('\n')}>
        {permissions.length} {permissions.length === 1 ? 'permission' : 'permissions'}
      </td>
      <td className="id">{scopes.length === 0 ? <span className="muted">all</span> : scopes.join(', ')}</td>
      <td>{usedAt === undefined ? <span className="muted">not yet</span> : <Time at={usedAt} />}</td>
      <td>
        <Time at={apiKey.revoked_at ?? apiKey.expires_at} />
        {apiKey.revoked_reason !== undefined && <div className="muted small">{apiKey.revoked_reason}</div>}
      </td>
      <td>
        <Status value={status} />
      </td>
      <td className="right">
        {revoke !== undefined && status === 'ACTIVE' && (
          <Button
            size="compact-xs"
            variant="default"
            aria-label={`Revoke ${apiKey.name}`}
            onClick={() => revoke(apiKey)}
          >
            Revoke
          </Button>
        )}
      </td>
    </tr>
  );
}

function Revoke({ apiKey, close }: { apiKey: ApiKey; close: () => void }): ReactNode {
  const { key_id: id, name } = apiKey;
  const [reason, setReason] = useState('');
  const revoke = async (): Promise<void> => {
    await call('delete', `${API_KEYS}/{key_id}`, { key_id: id, reason });
    await queryClient.invalidateQueries({ queryKey: [API_KEYS] });
  };
  return (
    <ChangeDialog
      title={`Revoke ${name}`}
      action="Revoke"
      danger
      change={revoke}
      close={close}
      differences={[{ label: 'Status', before: 'Active', after: 'Revoked' }]}
    >
      <p>
        Every request with this key is refused within a second, also a commit of what it holds: another key of
        the tenant can settle that. <strong>Nobody can undo it.</strong>
      </p>
      <TextInput
        label="Reason"
        description="For the list of keys and the audit log"
        value={reason}
        maxLength={512}
        onChange={(event) => setReason(event.currentTarget.value)}
        data-autofocus
      />
    </ChangeDialog>
  );
}
