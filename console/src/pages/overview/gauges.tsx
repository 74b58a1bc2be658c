import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { DAY_MS } from '../../../../src/ledger/time';
import type { ActivityFigures, LiveSnapshot } from '../../../../src/console/page-answers';
import { useOverview } from '../../api/overview';
import { Amount } from '../../parts/amount';
import { formatBytes } from '../../parts/bytes';
import { COUNT } from '../../parts/numbers';
import { Panel } from '../../parts/panel';
import { AsOf, formatDuration, Time } from '../../parts/time';

type SweeperFigures = LiveSnapshot['sweeper'];

export function InFlight({ sweeper }: { sweeper: SweeperFigures }): ReactNode {
  const next = sweeper?.next_deadline_at_ms;
  const counted = useOverview().data;
  const amounts = Object.entries(counted?.held_by_unit ?? {}).filter(([, amount]) => BigInt(amount) > 0n);
  return (
    <Panel title="In flight" className="span-4" aside={<Link to="/reservations">Live holds</Link>}>
      <div className="figure">
        {sweeper === undefined ? (
          <>
            –<small>holds</small>
          </>
        ) : (
          <Link to="/reservations">
            {COUNT.format(sweeper.holds)}
            <small>{sweeper.holds === 1 ? 'hold' : 'holds'}</small>
          </Link>
        )}
      </div>
      <ul className="amounts" aria-label="Amounts held">
        {amounts.map(([unit, amount]) => (
          <li key={unit}>
            <Amount amount={amount} unit={unit} withUnit />
          </li>
        ))}
      </ul>
      {counted !== undefined && amounts.length > 0 && (
        <div>
          {/* The number of holds is that of this second. */}
          <AsOf at={counted.as_of} />
        </div>
      )}
      <dl className="facts" style={{ marginTop: 10 }}>
        <dt>Next to expire</dt>
        <dd>
          {next === undefined ? (
            sweeper === undefined ? (
              '–'
            ) : (
              'none'
            )
          ) : (
            <Link to="/reservations">
              <Time at={next} clock />
            </Link>
          )}
        </dd>
        <dt>Due, not yet expired</dt>
        <dd className="num">
          {sweeper === undefined ? (
            '–'
          ) : (
            <Link to="/reservations" search={{ overdue: 'true' }}>
              {COUNT.format(sweeper.backlog)}
            </Link>
          )}
        </dd>
        <dt>Awaiting cleanup</dt>
        <dd className="num">{sweeper === undefined ? '–' : COUNT.format(sweeper.awaiting_cleanup)}</dd>
        <dt>In quarantine</dt>
        <dd className="num">
          {sweeper === undefined ? '–' : <Link to="/sweeper">{COUNT.format(sweeper.quarantined)}</Link>}
        </dd>
      </dl>
      {sweeper !== undefined && sweeper.unreadable > 0 && (
        <p style={{ marginTop: 8 }}>
          <Link to="/sweeper">
            Without the holds of {sweeper.unreadable} {sweeper.unreadable === 1 ? 'partition' : 'partitions'},
            whose keys are damaged
          </Link>
        </p>
      )}
    </Panel>
  );
}

/** The upper bound of the bucket that holds this share of the expirations; undefined if there were none. */
function quantile(
  { bounds_ms: bounds, counts }: ActivityFigures['lateness'],
  share: number,
): string | undefined {
  const total = counts.reduce((sum, count) => sum + count, 0);
  let seen = 0;
  for (const [bucket, count] of counts.entries()) {
    seen += count;
    if (total > 0 && seen >= total * share) {
      const bound = bounds[bucket];
      return bound === undefined
        ? `over ${formatDuration(bounds.at(-1) ?? 0)}`
        : `≤ ${formatDuration(bound)}`;
    }
  }
  return undefined;
}

export function Sweeper({
  sweeper,
  lateness,
}: {
  sweeper: SweeperFigures;
  lateness: ActivityFigures['lateness'] | undefined;
}): ReactNode {
  const most = Math.max(1, ...(lateness?.counts ?? []));
  const total = (lateness?.counts ?? []).reduce((sum, count) => sum + count, 0);
  return (
    <Panel title="How late holds expire" className="span-4" aside="last hour">
      <div className="row" style={{ gap: 28 }}>
        {[0.5, 0.99].map((share) => (
          <div key={share}>
            <div className="figure">{(lateness && quantile(lateness, share)) ?? '–'}</div>
            <div className="muted small">p{share * 100}</div>
          </div>
        ))}
      </div>
      <div
        className="bars"
        role="img"
        aria-label={`${COUNT.format(total)} expirations by how late they were`}
      >
        {(lateness?.counts ?? []).map((count, bucket) => (
          <div
            key={bucket}
            title={`${COUNT.format(count)} ${bucketWords(lateness?.bounds_ms ?? [], bucket)}`}
            style={{ height: `${count === 0 ? 0 : Math.max(4, (count / most) * 100)}%` }}
          />
        ))}
      </div>
      <div className="muted small row" style={{ justifyContent: 'space-between' }}>
        <span>at once</span>
        <span>a minute late</span>
      </div>
      <p className="muted small" style={{ marginTop: 8 }}>
        {sweeper === undefined
          ? 'No figures yet'
          : `${sweeper.instances} ${sweeper.instances === 1 ? 'instance sweeps' : 'instances sweep'} ${sweeper.partitions - sweeper.unheld - sweeper.unreadable} of ${sweeper.partitions} partitions.`}
      </p>
    </Panel>
  );
}

function bucketWords(bounds: readonly number[], bucket: number): string {
  const bound = bounds[bucket];
  return bound === undefined
    ? `later than ${formatDuration(bounds.at(-1) ?? 0)}`
    : `at most ${formatDuration(bound)} late`;
}

/** A shorter time says too little about a day. */
const LEAST_SPAN_MS = 1_800_000;

/** When the memory will be full if it goes on growing as in the samples. */
function daysUntilFull(samples: LiveSnapshot['memory'] | undefined, maxBytes: number): string {
  if (samples === undefined) {
    return 'not recorded';
  }
  const [first, last] = [samples[0], samples.at(-1)];
  if (first === undefined || last === undefined || last.atMs - first.atMs < LEAST_SPAN_MS) {
    return 'known after half an hour';
  }
  const perDay = ((last.usedBytes - first.usedBytes) * DAY_MS) / (last.atMs - first.atMs);
  if (perDay <= 0) {
    return 'not at the present rate';
  }
  const days = (maxBytes - last.usedBytes) / perDay;
  return days > 365 ? 'in more than a year' : days < 1 ? 'in less than a day' : `in ${Math.floor(days)} days`;
}

export function Memory({
  readiness,
  samples,
}: {
  readiness: LiveSnapshot['readiness'] | undefined;
  /** Undefined if this instance records none. */
  samples: LiveSnapshot['memory'] | undefined;
}): ReactNode {
  const memory = readiness?.details['redis']?.memory;
  const isLimited = memory !== undefined && memory.maxmemoryBytes > 0;
  const share = isLimited ? Math.min(100, (memory.usedBytes / memory.maxmemoryBytes) * 100) : 0;
  return (
    <Panel title="Memory of Redis" className="span-4">
      <div className="figure">
        {memory === undefined ? '–' : formatBytes(memory.usedBytes)}
        <small>in use</small>
      </div>
      <div className="bar" style={{ margin: '10px 0' }} aria-hidden="true">
        <span style={{ width: `${share}%`, background: `var(${share > 85 ? '--bad' : '--spent'})` }} />
      </div>
      <dl className="facts">
        <dt>Limit</dt>
        <dd>
          {memory === undefined
            ? '–'
            : isLimited
              ? formatBytes(memory.maxmemoryBytes)
              : 'none set (maxmemory 0)'}
        </dd>
        <dt>Left</dt>
        <dd>{isLimited ? formatBytes(memory.maxmemoryBytes - memory.usedBytes) : '–'}</dd>
        <dt>Full</dt>
        <dd>{isLimited ? daysUntilFull(samples, memory.maxmemoryBytes) : '–'}</dd>
      </dl>
    </Panel>
  );
}
