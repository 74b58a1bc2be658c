import { Button } from '@mantine/core';
import type { ReactNode } from 'react';

/** The foot of a list that is read page by page. */
export function MoreRows({
  shown,
  hasMore,
  isLoading,
  load,
}: {
  shown: number;
  hasMore: boolean;
  isLoading: boolean;
  load: () => void;
}): ReactNode {
  return (
    <div className="row" style={{ padding: '10px 16px', justifyContent: 'space-between' }}>
      <span className="muted small num">
        {shown} {shown === 1 ? 'row' : 'rows'}
        {hasMore ? ', more to come' : ''}
      </span>
      {hasMore && (
        <Button variant="default" size="compact-sm" loading={isLoading} onClick={load}>
          Show more
        </Button>
      )}
    </div>
  );
}
