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

/** A constant of the API as a word: `OVER_LIMIT` is `Over limit`. */
export const wordOf = (value: string): string =>
  value.charAt(0).toUpperCase() + value.slice(1).toLowerCase().replaceAll('_', ' ');

export function Status({ value }: { value: string }): ReactNode {
  return <span className={`pill ${LOOKS[value] ?? ''}`}>{wordOf(value)}</span>;
}
