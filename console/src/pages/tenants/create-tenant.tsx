import { TextInput } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import { call } from '../../api/client';
import { queryClient } from '../../api/session';
import { ChangeDialog } from '../../parts/change-dialog';

const TENANT_ID = /^[a-z0-9-]{3,64}$/;

export function CreateTenant({ close }: { close: () => void }): ReactNode {
  const [id, setId] = useState('');
  const [name, setName] = useState('');
  const create = async (): Promise<void> => {
    await call('post', '/v1/admin/tenants', {}, { tenant_id: id, name });
    await queryClient.invalidateQueries({ queryKey: ['/v1/admin/tenants'] });
  };
  const blocked = !TENANT_ID.test(id)
    ? '3 to 64 lower-case letters, digits or hyphens as id'
    : name === ''
      ? 'A name is missing'
      : undefined;
  return (
    <ChangeDialog
      title="Create a tenant"
      action="Create tenant"
      change={create}
      close={close}
      blocked={blocked}
    >
      <TextInput
        label="Id"
        description="Cannot be changed later"
        value={id}
        onChange={(event) => setId(event.currentTarget.value)}
        data-autofocus
      />
      <TextInput label="Name" value={name} onChange={(event) => setName(event.currentTarget.value)} />
    </ChangeDialog>
  );
}
