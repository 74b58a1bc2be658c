import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { get } from '../../api/client';
import type { Budget, CyclesEvent } from '../../api/types';
import { WEBHOOKS } from '../../api/webhooks';
import { Loaded } from '../../parts/loaded';
import { percentOf } from '../../parts/numbers';
import { Panel } from '../../parts/panel';
import { Table } from '../../parts/table';
import { Time } from '../../parts/time';

const EVERY_MS = 10_000;
const EVENTS_READ = 100;
const SUBSCRIPTIONS_READ = 100;
/** What lua/lib/threshold.lua watches in any case. */
const USUAL_MARKS = [0.8, 0.95, 1];
/** Marks have at most nine decimals. */
const MARK_SCALE = 1_000_000_000;

/** Whether what is spent and held has reached a share of what is allocated; exact. */
function isReached({ allocated, spent, reserved }: Budget, mark: number): boolean {
  const whole = BigInt(allocated.amount);
  const used = BigInt(spent.amount) + BigInt(reserved.amount);
  return whole > 0n && used * BigInt(MARK_SCALE) >= whole * BigInt(Math.round(mark * MARK_SCALE));
}

interface Watched {
  readonly marks: readonly number[];
  readonly crossings: readonly CyclesEvent[];
}

async function readWatched({ tenant_id: tenant, scope, unit }: Budget): Promise<Watched> {
  const [{ subscriptions }, { events }] = await Promise.all([
    get(WEBHOOKS, {
      tenant_id: tenant,
      status: 'ACTIVE',
      limit: SUBSCRIPTIONS_READ,
    }),
    get('/v1/admin/events', {
      event_type: 'budget.threshold_crossed',
      tenant_id: tenant,
      scope,
      limit: EVENTS_READ,
    }),
  ]);
  const asked = subscriptions.flatMap(({ thresholds }) => thresholds?.budget_utilization ?? []);
  return {
    marks: [...new Set([...USUAL_MARKS, ...asked])].sort((one, other) => one - other),
    // The API does not filter events by unit, and a scope includes those below it.
    crossings: events.filter((event) => event.scope === scope && event.data['unit'] === unit),
  };
}

/** The shares at which Holdfast tells subscribers, whether they are reached, and when they were last crossed. */
export function Thresholds({ budget }: { budget: Budget }): ReactNode {
  const watched = useQuery({
    queryKey: ['thresholds', budget.scope, budget.unit],
    queryFn: () => readWatched(budget),
    refetchInterval: EVERY_MS,
  });
  return (
    <Panel title="Thresholds" className="span-12" aside="of spent and held" flush>
      <Loaded query={watched} height={150}>
        {({ marks, crossings }) => (
          <Table label="Thresholds" columns={['Used', 'Now', 'Last crossed']} items={marks}>
            {(mark) => (
              <tr key={mark}>
                <td className="num">{percentOf(mark)}</td>
                <td>
                  {isReached(budget, mark) ? (
                    <span className="pill warn">reached</span>
                  ) : (
                    <span className="pill">not reached</span>
                  )}
                </td>
                <td>
                  <Crossing event={crossings.find(({ data: told }) => told?.['threshold'] === mark)} />
                </td>
              </tr>
            )}
          </Table>
        )}
      </Loaded>
    </Panel>
  );
}

function Crossing({ event }: { event: CyclesEvent | undefined }): ReactNode {
  if (event === undefined) {
    return <span className="muted">never, as far as events are kept</span>;
  }
  return (
    <>
      <Link to="/events" search={{ event: event.event_id }}>
        <Time at={event.timestamp} />
      </Link>{' '}
      <span className="muted">{event.data['direction'] === 'falling' ? 'downwards' : 'upwards'}</span>
    </>
  );
}
