import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';

/** The id of an event, which leads to it. */
export function EventLink({ id, className = 'id' }: { id: string; className?: string }): ReactNode {
  return (
    <Link to="/events" search={{ event: id }} className={className}>
      {id}
    </Link>
  );
}
