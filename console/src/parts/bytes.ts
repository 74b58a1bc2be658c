import { COUNT, TENTHS } from './numbers';

const NAMES = ['B', 'KB', 'MB', 'GB', 'TB'];

export function formatBytes(bytes: number): string {
  let value = bytes;
  let step = 0;
  while (value >= 1024 && step < NAMES.length - 1) {
    value /= 1024;
    step += 1;
  }
  return `${(value >= 100 || step === 0 ? COUNT : TENTHS).format(value)} ${NAMES[step] ?? ''}`;
}
