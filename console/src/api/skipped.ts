import { useSyncExternalStore } from 'react';

/** By the request's path: the damaged records that its latest answer has left out. */
let left: ReadonlyMap<string, readonly string[]> = new Map();
const listeners = new Set<() => void>();

function change(next: ReadonlyMap<string, readonly string[]>): void {
  left = next;
  listeners.forEach((listener) => listener());
}

/** `kind=name` becomes `kind name`. */
function readable(part: string): string {
  const [kind = '', name = ''] = part.split('=', 2);
  return kind === 'more' ? `${name} more` : `${kind.replace('_', ' ')} ${decodeURIComponent(name)}`;
}

/** @param header X-Holdfast-Skipped-Records of the answer */
export function noteSkipped(path: string, header: string | null): void {
  if (header !== null || left.has(path)) {
    const next = new Map(left);
    next.delete(path);
    change(header === null ? next : next.set(path, header.split(', ').map(readable)));
  }
}

/** What was left out concerns a page only while that is shown. */
export function forgetSkipped(): void {
  change(new Map());
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** What the answers that the page shows have left out. */
export function useSkipped(): readonly string[] {
  const known = useSyncExternalStore(subscribe, () => left);
  return [...new Set([...known.values()].flat())];
}
