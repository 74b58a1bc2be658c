import type { ReactNode } from 'react';
import { COUNT } from '../../parts/numbers';
import { Panel } from '../../parts/panel';
import { formatDuration, Time } from '../../parts/time';
import { type Condition, conditionOf, latenessOf, type Partition, type SweeperState } from './state';

const WORDS: Readonly<Record<Condition, string>> = {
  quiet: 'nothing due',
  due: 'being swept',
  late: 'late',
  unheld: 'held by nobody',
};

/** All partitions as a grid: the colour says how each is, the number which instance holds it. */
export function Partitions({
  state,
  chosen,
  choose,
}: {
  state: SweeperState;
  chosen: string | undefined;
  choose: (partition: string | undefined) => void;
}): ReactNode {
  const selected = state.partitions.find(({ partition }) => partition === chosen);
  const numbers = new Map(state.instances.map(({ instance }, index) => [instance, index + 1]));
  return (
    <Panel title="Partitions" className="span-8" aside="the small number is the instance">
      <div className="partitions" role="group" aria-label="Partitions">
        {state.partitions.map((partition) => {
          const condition = conditionOf(partition, state.now_ms);
          const { partition: code, held_by: holder = '', due } = partition;
          return (
            <button
              key={code}
              type="button"
              className={`partition ${condition}`}
              aria-pressed={code === chosen}
              onClick={() => choose(code === chosen ? undefined : code)}
            >
              <span className="id">{code}</span>
              <span className="visually-hidden">, {WORDS[condition]}, </span>
              <span className="small num">{due > 0 ? COUNT.format(due) : (numbers.get(holder) ?? '–')}</span>
              <span className="visually-hidden">{due > 0 ? ' due' : ' is its instance'}</span>
            </button>
          );
        })}
        {state.unreadable.map((code) => (
          <span key={code} className="partition unheld" title="Its keys are damaged">
            <span className="id">{code}</span>
            <span className="small">!</span>
          </span>
        ))}
      </div>
      <div className="row small muted" style={{ marginTop: 12, gap: '4px 16px' }}>
        {(Object.keys(WORDS) as Condition[]).map((condition) => (
          <span key={condition}>
            <span className={`swatch partition ${condition}`} aria-hidden="true" />
            {WORDS[condition]}
          </span>
        ))}
      </div>
      <div style={{ marginTop: 14, minHeight: 92 }} aria-live="polite">
        {selected === undefined ? (
          <p className="muted">Choose a partition to see who holds it and what is due in it.</p>
        ) : (
          <Details partition={selected} nowMs={state.now_ms} />
        )}
      </div>
    </Panel>
  );
}

function Details({ partition, nowMs }: { partition: Partition; nowMs: number }): ReactNode {
  const { partition: code, held_by: holder, lapses_in_ms: lapses = 0, next_deadline_at_ms: next } = partition;
  return (
    <dl className="facts">
      <dt>Partition</dt>
      <dd className="id">{code}</dd>
      <dt>Held by</dt>
      <dd className="id">
        {holder === undefined ? 'nobody: an instance takes it at its next beat' : holder}
        {holder !== undefined && <span className="muted"> for another {formatDuration(lapses)}</span>}
      </dd>
      <dt>Holds</dt>
      <dd className="num">
        {COUNT.format(partition.indexed)}, {COUNT.format(partition.due)} due,{' '}
        {COUNT.format(partition.quarantined)} in quarantine
      </dd>
      <dt>Late by</dt>
      <dd className="num">{formatDuration(latenessOf(partition, nowMs))}</dd>
      <dt>Next to expire</dt>
      <dd>{next === undefined ? 'none' : <Time at={next} />}</dd>
    </dl>
  );
}
