import { useEffect } from 'react';

/** Gives the focus back to what had it before the caller showed. Mantine does so only for what it hides, not for what goes away. */
export function useReturnFocus(): void {
  useEffect(() => {
    const before = document.activeElement;
    return () => {
      if (before instanceof HTMLElement) {
        before.focus({ preventScroll: true });
      }
    };
  }, []);
}
