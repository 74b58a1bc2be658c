import { Link } from '@tanstack/react-router';
import { type ReactNode, useMemo } from 'react';
import type { ActivityFigures, Rates } from '../../../../src/console/page-answers';
import { serverNowMs } from '../../api/server-time';
import { Graph } from '../../parts/graph';
import { COUNT, numberFormat } from '../../parts/numbers';
import { Empty } from '../../parts/states';

const RATE = numberFormat({ maximumFractionDigits: 1 });
const RATES: readonly { name: keyof Rates; label: string; colour: string }[] = [
  { name: 'reserves', label: 'Reserves', colour: '--reserve' },
  { name: 'commits', label: 'Commits', colour: '--commit' },
  { name: 'denials', label: 'Denials', colour: '--deny' },
  { name: 'expirations', label: 'Expirations', colour: '--expire' },
];

/** The rates of this second, and a graph of the last hour. The figures are the legend of the graph. */
export function ActivityPanel({
  activity,
  isRecorded,
}: {
  activity: ActivityFigures | undefined;
  isRecorded: boolean;
}): ReactNode {
  const slots = activity?.slots;
  const firstMs = slots?.first_at_ms;
  // The hour changes every ten seconds, not with each snapshot.
  const { times, lines } = useMemo(() => linesOf(slots), [firstMs]);
  return (
    <section className="panel" aria-label="Activity">
      <div className="panel-body">
        <div className="grid" style={{ marginBottom: 14 }}>
          {RATES.map(({ name, label, colour }) => (
            <div key={name} className="span-3">
              <h2>
                <span className="swatch" style={{ background: `var(${colour})` }} />
                {label}
              </h2>
              <div className="figure">
                {activity === undefined ? '–' : RATE.format(activity.per_second[name])}
                <small>a second</small>
              </div>
              <div className="muted small num">
                {activity === undefined ? (
                  isRecorded ? (
                    'no figures yet'
                  ) : (
                    'not recorded'
                  )
                ) : (
                  <LastHour name={name} count={activity.last_hour[name]} />
                )}
              </div>
            </div>
          ))}
        </div>
        {isRecorded ? (
          <Graph
            times={times}
            lines={lines}
            height={180}
            summary="Rates of the last hour, as in the figures above"
          />
        ) : (
          <Empty title="Activity is not recorded">
            <p>
              This instance runs with <code>RECORD_ACTIVITY=false</code>, so there are no rates, no lateness
              and no history of memory.
            </p>
          </Empty>
        )}
      </div>
    </section>
  );
}

const HOUR_MS = 3_600_000;

/** How often it happened, and the way to what there is of it: most reserves and commits have no event. */
function LastHour({ name, count }: { name: keyof Rates; count: number }): ReactNode {
  const words = `${COUNT.format(count)} in the last hour`;
  // To the minute, so that the address stays the same while somebody looks at it.
  const from = new Date(Math.floor((serverNowMs() - HOUR_MS) / 60_000) * 60_000).toISOString();
  switch (name) {
    case 'denials':
      return (
        <Link to="/events" search={{ event_type: 'reservation.denied', from }}>
          {words}
        </Link>
      );
    case 'expirations':
      return <Link to="/expirations">{words}</Link>;
    default:
      return words;
  }
}

function linesOf(slots: ActivityFigures['slots'] | undefined) {
  const times = (slots?.reserves ?? []).map(
    (_rate, index) => ((slots?.first_at_ms ?? 0) + index * (slots?.slot_ms ?? 0)) / 1000,
  );
  const lines = RATES.map(({ name, label, colour }) => ({ label, colour, values: slots?.[name] ?? [] }));
  return { times, lines };
}
