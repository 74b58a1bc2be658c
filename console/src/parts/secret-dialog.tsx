import { Button, Modal } from '@mantine/core';
import type { ReactNode } from 'react';
import { useReturnFocus } from './return-focus';

/** Shows a secret that nobody can read again. A click beside it does not close it. */
export function SecretDialog({
  title,
  secret,
  close,
  children,
}: {
  title: string;
  secret: string;
  close: () => void;
  children?: ReactNode;
}): ReactNode {
  useReturnFocus();
  return (
    <Modal
      opened
      onClose={close}
      title={title}
      centered
      closeOnClickOutside={false}
      transitionProps={{ duration: 0 }}
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      <div className="stack">
        <p>Copy it now. It is shown only once.</p>
        <output className="notice id">{secret}</output>
        {children}
        <Button onClick={close}>I have copied it</Button>
      </div>
    </Modal>
  );
}
