import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { get } from '../../api/client';
import { COUNT } from '../../parts/numbers';
import { PageHead, Panel } from '../../parts/panel';
import { Failure, Loading } from '../../parts/states';
import { AsOf, formatDuration } from '../../parts/time';
import { useTitle } from '../../parts/title';
import { Instances } from './instances';
import { Partitions } from './partitions';
import { Quarantine } from './quarantine';
import type { SweeperState } from './state';

const EVERY_MS = 3000;
const route = getRouteApi('/sweeper');

/** Who sweeps what, how late, and what could not be settled. */
export function Sweeper(): ReactNode {
  useTitle('Sweeper');
  const { partition, reservation } = route.useSearch();
  const navigate = route.useNavigate();
  const { data, error, refetch } = useQuery({
    queryKey: ['sweeper'],
    queryFn: () => get('/ops/sweeper', {}),
    refetchInterval: EVERY_MS,
  });
  const chosen = (name: 'partition' | 'reservation') => (value: string | undefined) =>
    void navigate({
      search: ({ [name]: _, ...others }) => (value === undefined ? others : { ...others, [name]: value }),
      replace: true,
      resetScroll: false,
    });
  return (
    <>
      <PageHead title="Sweeper">{data !== undefined && <AsOf at={data.now_ms} />}</PageHead>
      {error !== null && <Failure error={error} retry={() => void refetch()} />}
      <div className="grid">
        {data === undefined ? (
          <div className="span-12">{error === null && <Loading height={420} />}</div>
        ) : (
          <>
            <Partitions state={data} chosen={partition} choose={chosen('partition')} />
            <Totals state={data} />
            <Instances instances={data.instances} />
          </>
        )}
        <Quarantine chosen={reservation} choose={chosen('reservation')} />
      </div>
    </>
  );
}

function Totals({ state }: { state: SweeperState }): ReactNode {
  const held = state.partitions.length - state.unheld.length;
  return (
    <Panel title="All partitions" className="span-4">
      <div className="figure">
        {COUNT.format(state.backlog)}
        <small>due, not yet expired</small>
      </div>
      <dl className="facts" style={{ marginTop: 12 }}>
        <dt>Late by</dt>
        <dd className="num">{formatDuration(state.lateness_ms)}</dd>
        <dt>Partitions held</dt>
        <dd className="num">
          {held} of {state.partitions.length}
        </dd>
        <dt>In quarantine</dt>
        <dd className="num">{COUNT.format(state.quarantined)}</dd>
        <dt>Awaiting cleanup</dt>
        <dd className="num">{COUNT.format(state.awaiting_cleanup)}</dd>
      </dl>
      {state.unreadable.length > 0 && (
        <p className="notice bad" style={{ marginTop: 12 }}>
          The keys of {state.unreadable.join(', ')} are damaged.
        </p>
      )}
    </Panel>
  );
}
