import type { ReactNode } from 'react';

const LOOKS: Readonly<Record<string, string>> = {
  ACTIVE: 'good',
  COMMITTED: '',
  RELEASED: '',
  EXPIRED: 'warn',
  FROZEN: 'warn',
  SUSPENDED: 'warn',
  PAUSED: 'warn',
  DISABLED: 'bad',
  SUCCESS: 'good',
  FAILED: 'bad',
  RETRYING: 'warn',
  CLOSED: '',
};

export function Status({ value }: { value: string }): ReactNode {
  const word = value.charAt(0) + value.slice(1).toLowerCase().replaceAll('_', ' ');
  return <span className={`pill ${LOOKS[value] ?? ''}`}>{word}</span>;
}
