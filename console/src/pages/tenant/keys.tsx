import { Button, TextInput } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { call } from '../../api/client';
import { useList } from '../../api/list';
import { queryClient } from '../../api/session';
import { ChangeDialog } from '../../parts/change-dialog';
import { Listing } from '../../parts/loaded';
import { Panel } from '../../parts/panel';
import { Empty } from '../../parts/states';
import { Status } from '../../parts/status';
import { Table } from '../../parts/table';
import { Time } from '../../parts/time';
import { type ApiKey, KeyForm } from './key-form';
import { API_KEYS } from './owned';

/** What is done to a key: a form, or its end. */
type Act = 'edit' | 'rotate' | 'revoke';
const ACTS: Readonly<Record<Act, string>> = { edit: 'Edit', rotate: 'Rotate', revoke: 'Revoke' };

/** The API keys of a tenant. */
export function Keys({
  tenantId,
  mayCreate,
  mayChange,
}: {
  tenantId: string;
  mayCreate: boolean;
  mayChange: boolean;
}): ReactNode {
  const [isCreating, setCreating] = useState(false);
  const [act, setAct] = useState<{ readonly act: Act; readonly key: ApiKey }>();
  const end = (): void => setAct(undefined);
  const list = useList(
    API_KEYS,
    { tenant_id: tenantId, sort_by: 'created_at', sort_dir: 'desc' },
    ({ keys }) => keys,
  );
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
            columns={['Key', 'May', 'Only in scopes', 'Last used', 'Ends', 'Status', { hidden: 'Change' }]}
            items={keys}
          >
            {(key) => (
              <KeyRow
                key={key.key_id}
                apiKey={key}
                acts={!mayChange ? [] : mayCreate ? ['edit', 'rotate', 'revoke'] : ['edit', 'revoke']}
                choose={(chosen) => setAct({ act: chosen, key })}
              />
            )}
          </Table>
        )}
      </Listing>
      {isCreating && <KeyForm tenantId={tenantId} purpose="create" close={() => setCreating(false)} />}
      {act?.act === 'revoke' && <Revoke apiKey={act.key} close={end} />}
      {act !== undefined && act.act !== 'revoke' && (
        <KeyForm tenantId={tenantId} purpose={act.act} apiKey={act.key} close={end} />
      )}
    </Panel>
  );
}

function KeyRow({
  apiKey,
  acts,
  choose,
}: {
  apiKey: ApiKey;
  acts: readonly Act[];
  choose: (act: Act) => void;
}): ReactNode {
  const { key_id: id, permissions, scope_filter: scopes, status, last_used_at: usedAt } = apiKey;
  return (
    <tr>
      <td>
        <Link to="/tenants/$id" params={{ id: apiKey.tenant_id }} search={{ key: id }} resetScroll={false}>
          {apiKey.name}
        </Link>
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
        {status === 'ACTIVE' && (
          <div className="row actions">
            {acts.map((act) => (
              <Button
                key={act}
                size="compact-xs"
                variant="default"
                aria-label={`${ACTS[act]} ${apiKey.name}`}
                onClick={() => choose(act)}
              >
                {ACTS[act]}
              </Button>
            ))}
          </div>
        )}
      </td>
    </tr>
  );
}

export function Revoke({ apiKey, close }: { apiKey: ApiKey; close: () => void }): ReactNode {
  const { key_id: id, name } = apiKey;
  const [reason, setReason] = useState('');
  const revoke = async (): Promise<void> => {
    await call('delete', `${API_KEYS}/{key_id}`, { key_id: id, reason });
    await Promise.all(
      [API_KEYS, '/ops/api-keys'].map((path) => queryClient.invalidateQueries({ queryKey: [path] })),
    );
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
