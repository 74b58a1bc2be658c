import { Button, Modal, TextInput } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import { call } from '../../api/client';
import { ChangeDialog } from '../../parts/change-dialog';

/** Creates an API key and shows its secret, which nobody can read again. */
export function CreateKey({ tenantId, close }: { tenantId: string; close: () => void }): ReactNode {
  const [name, setName] = useState('');
  const [secret, setSecret] = useState<string>();
  if (secret !== undefined) {
    return (
      <Modal
        opened
        onClose={close}
        title="The new key"
        centered
        closeOnClickOutside={false}
        transitionProps={{ duration: 0 }}
        closeButtonProps={{ 'aria-label': 'Close' }}
      >
        <div className="stack">
          <p>Copy it now. It is shown only once.</p>
          <output className="notice id">{secret}</output>
          <Button onClick={close}>I have copied it</Button>
        </div>
      </Modal>
    );
  }
  const create = async (): Promise<void> => {
    const made = await call<{ key_secret: string }>('POST', '/v1/admin/api-keys', {
      tenant_id: tenantId,
      name,
    });
    setSecret(made.key_secret);
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
