import { Drawer } from '@mantine/core';
import '@mantine/core/styles/Drawer.css';
import type { ReactNode } from 'react';
import { useReturnFocus } from './return-focus';

/** Details of a row of a list, beside the list. Esc closes it, and the focus returns to the row. */
export function SidePanel({
  title,
  close,
  children,
}: {
  title: ReactNode;
  close: () => void;
  children: ReactNode;
}): ReactNode {
  useReturnFocus();
  return (
    <Drawer
      opened
      onClose={close}
      position="right"
      size={560}
      title={title}
      closeButtonProps={{ 'aria-label': 'Close' }}
      transitionProps={{ duration: 0 }}
    >
      {children}
    </Drawer>
  );
}
