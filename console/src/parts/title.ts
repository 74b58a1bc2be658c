import { useEffect } from 'react';

/** Names the tab and the entry in the browser's history, while the page loads and where it fails, too. */
export function useTitle(name: string): void {
  useEffect(() => {
    document.title = `${name} · Holdfast`;
  }, [name]);
}
