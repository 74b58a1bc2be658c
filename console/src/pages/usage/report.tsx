import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { ApiError } from '../../api/client';
import { Loaded } from '../../parts/loaded';
import { Empty } from '../../parts/states';
import type { Usage } from './usage';

const NOT_HERE = 501;

/** A report, or what to set where there can be none. */
export function LoadedUsage({
  usage,
  height,
  children,
}: {
  usage: UseQueryResult<Usage>;
  height: number;
  children: (read: Usage) => ReactNode;
}): ReactNode {
  const { error } = usage;
  return error instanceof ApiError && error.status === NOT_HERE ? (
    <Empty title="Usage is not recorded here">
      {error.message.charAt(0).toUpperCase() + error.message.slice(1)}.
    </Empty>
  ) : (
    <Loaded query={usage} height={height}>
      {children}
    </Loaded>
  );
}
