import { useMatch } from '@tanstack/react-router';
import { type RefObject, useEffect, useRef } from 'react';

let isAwaited = false;

/** Lets the heading of the next page take the focus once it shows, because what has the focus now goes away. */
export function focusNextHeading(): void {
  isAwaited = true;
}

/** For the main heading of a page. It takes the focus once for each page, so reading or filtering that page again does not move it. */
export function useHeadingFocus(): RefObject<HTMLHeadingElement | null> {
  const heading = useRef<HTMLHeadingElement>(null);
  // The page that is left may render once more while the other one loads, and must not take the focus.
  const path = useMatch({ strict: false, select: ({ pathname }) => pathname });
  useEffect(() => {
    if (isAwaited) {
      isAwaited = false;
      // The router restores where the page was scrolled to.
      heading.current?.focus({ preventScroll: true });
    }
  }, [path]);
  return heading;
}
