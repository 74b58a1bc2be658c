import { TextInput } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import { call } from '../../api/client';
import { queryClient } from '../../api/session';
import { ChangeDialog } from '../../parts/change-dialog';
import { SecretDialog } from '../../parts/secret-dialog';
import { API_KEYS } from '../tenant/owned';

/** Creates an API key and shows its secret, which nobody can read again. */
export function CreateKey({ tenantId, close }: { tenantId: string; close: () => void }): ReactNode {
  const [name, setName] = useState('');
  const [secret, setSecret] = useState<string>();
  if (secret !== undefined) {
    return <SecretDialog title="The new key" secret={secret} close={close} />;
  }
  const create = async (): Promise<void> => {
    const made = await call(
      'post',
      API_KEYS,
      {},
      {
        tenant_id: tenantId,
        name,
      },
    );
    setSecret(made.key_secret);
    await queryClient.invalidateQueries({ queryKey: [API_KEYS] });
  };
  return (
    <ChangeDialog
      title={`Create a key for ${tenantId}`}
      action="Create key"
      change={create}
      close={() => undefined}
      cancel={close}
      blocked={name === '' ? 'A name is missing' : undefined}
    >
      <TextInput
        label="Name"
        description="What uses it, for the list of keys"
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        data-autofocus
      />
    </ChangeDialog>
  );
}
