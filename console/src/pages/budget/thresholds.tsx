import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { get } from '../../api/client';
import type { Budget, CyclesEvent } from '../../api/types';
import type { Int64 } from '../../api/json';
import { Amount } from '../../parts/amount';
import { Loaded } from '../../parts/loaded';
import { percentOf } from '../../parts/numbers';
import { Panel } from '../../parts/panel';
import { Table } from '../../parts/table';
import { Time } from '../../parts/time';

const EVERY_MS = 10_000;
const EVENTS_READ = 100;
/** Marks have at most nine decimals. */
const MARK_SCALE = 1_000_000_000;

/** What Holdfast tells subscribers of: a share of what is allocated, or an amount. */
type Mark = { readonly share: number } | { readonly amount: Int64 };

/** Whether what is spent and held has reached it; exact. */
function isReached({ allocated, spent, reserved }: Budget, mark: Mark): boolean {
  const whole = BigInt(allocated.amount);
  const used = BigInt(spent.amount) + BigInt(reserved.amount);
  return 'amount' in mark
    ? used >= BigInt(mark.amount)
    : whole > 0n && used * BigInt(MARK_SCALE) >= whole * BigInt(Math.round(mark.share * MARK_SCALE));
}

const isOf = (mark: Mark, { data }: CyclesEvent): boolean =>
  'amount' in mark
    ? data['threshold_amount'] !== undefined &&
      BigInt(data['threshold_amount'] as Int64) === BigInt(mark.amount)
    : data['threshold'] === mark.share;

interface Watched {
  readonly marks: readonly Mark[];
  readonly crossings: readonly CyclesEvent[];
  /** How many events were looked at, if there are older ones. */
  readonly cutAt: number | undefined;
}

async function readWatched({ tenant_id: tenant, scope, unit }: Budget): Promise<Watched> {
  const [{ thresholds, threshold_amounts: amounts }, { events, has_more: isCut }] = await Promise.all([
    get('/ops/budgets/thresholds', { scope, unit }),
    get('/v1/admin/events', {
      event_type: 'budget.threshold_crossed',
      tenant_id: tenant,
      scope,
      limit: EVENTS_READ,
    }),
  ]);
  return {
    marks: [
      ...[...thresholds].sort((one, other) => one - other).map((share) => ({ share })),
      ...[...amounts]
        .sort((one, other) => (BigInt(one) < BigInt(other) ? -1 : 1))
        .map((amount) => ({ amount })),
    ],
    // The API does not filter events by unit, and a scope includes those below it.
    crossings: events.filter((event) => event.scope === scope && event.data['unit'] === unit),
    cutAt: isCut ? events.length : undefined,
  };
}

/** The shares and amounts at which Holdfast tells subscribers, whether they are reached, and when they were last crossed. */
export function Thresholds({ budget }: { budget: Budget }): ReactNode {
  const watched = useQuery({
    queryKey: ['thresholds', budget.scope, budget.unit],
    queryFn: () => readWatched(budget),
    refetchInterval: EVERY_MS,
  });
  return (
    <Panel title="Thresholds" className="span-12" aside="of spent and held" flush>
      <Loaded query={watched} height={150}>
        {({ marks, crossings, cutAt }) => (
          <Table label="Thresholds" columns={['Used', 'Now', 'Last crossed']} items={marks}>
            {(mark) => (
              <tr key={JSON.stringify(mark, (_, value: unknown) => String(value))}>
                <td className="num">
                  {'amount' in mark ? (
                    <Amount amount={mark.amount} unit={budget.unit} withUnit />
                  ) : (
                    percentOf(mark.share)
                  )}
                </td>
                <td>
                  {isReached(budget, mark) ? (
                    <span className="pill warn">Reached</span>
                  ) : (
                    <span className="pill">Not reached</span>
                  )}
                </td>
                <td>
                  <Crossing event={crossings.find((event) => isOf(mark, event))} cutAt={cutAt} />
                </td>
              </tr>
            )}
          </Table>
        )}
      </Loaded>
    </Panel>
  );
}

function Crossing({
  event,
  cutAt,
}: {
  event: CyclesEvent | undefined;
  cutAt: number | undefined;
}): ReactNode {
  if (event === undefined) {
    return (
      <span className="muted">
        {cutAt === undefined
          ? 'never, as far as events are kept'
          : cutAt === 0
            ? 'not among the newest events'
            : `not among the last ${cutAt} crossings here and below`}
      </span>
    );
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
