import { useMatch } from '@tanstack/react-router';
import { type RefObject, useEffect, useRef } from 'react';

let isOwed = false;

/** The reader comes to another page. What had the focus goes away, so the heading of that page takes it once it shows. */
export function oweFocus(): void {
  isOwed = true;
}

/** For the main heading of a page. It takes the focus once for each page, so reading or filtering that page again does not move it. */
export function useHeadingFocus(): RefObject<HTMLHeadingElement | null> {
  const heading = useRef<HTMLHeadingElement>(null);
  // The page that is left may render once more while the other one loads, and must not take the focus.
  const path = useMatch({ strict: false, select: ({ pathname }) => pathname });
  useEffect(() => {
    if (isOwed) {
      isOwed = false;
      // The router restores where the page was scrolled to.
      heading.current?.focus({ preventScroll: true });
    }
  }, [path]);
  return heading;
}
