import type { ReactNode } from 'react';
import { Amount } from '../../parts/amount';
import { EventLink } from '../../parts/event-link';
import { Who } from '../../parts/key-name';
import { formatDuration, Time } from '../../parts/time';
import { ToldTo } from '../../parts/told';
import type { ReservationHistory } from './history';

const ENDS: Readonly<Record<string, readonly [words: string, colour: string]>> = {
  COMMITTED: ['Committed', '--commit'],
  RELEASED: ['Released', '--muted'],
  EXPIRED: ['Expired', '--expire'],
};

function Step({
  at,
  colour = '--accent',
  title,
  children,
}: {
  at: number | undefined;
  colour?: string;
  title: ReactNode;
  children?: ReactNode;
}): ReactNode {
  return (
    <li style={{ ['--mark' as string]: `var(${colour})` }}>
      <div className="row" style={{ justifyContent: 'space-between' }}>
        <strong>{title}</strong>
        <span className="muted small">{at !== undefined && <Time at={at} />}</span>
      </div>
      {children}
    </li>
  );
}

/** Asked, extended, ended; for one that lives, when it will end at the latest. */
export function TimeLine({ history }: { history: ReservationHistory }): ReactNode {
  const {
    reserved,
    scopes,
    created_at_ms: createdMs,
    expires_at_ms: expiresMs,
    reclaim_at_ms: reclaimMs,
    charge_on_expiry: cost,
  } = history;
  const held = scopes.filter(({ budgeted }) => budgeted).length;
  const waits = history.expiry_policy === 'MANUAL_CLEANUP';
  return (
    <ol className="timeline" style={{ margin: 0 }}>
      <Step at={createdMs} colour="--reserve" title="Held">
        <Amount amount={reserved.amount} unit={reserved.unit} withUnit exact /> in {held}{' '}
        {held === 1 ? 'budget' : 'budgets'}
      </Step>
      {history.extensions.map(({ at_ms: atMs, expires_at_ms: untilMs }) => (
        <Step key={atMs} at={atMs} colour="--held" title="Extended">
          {untilMs !== undefined && (
            <>
              until <Time at={untilMs} />
            </>
          )}
        </Step>
      ))}
      {history.end === undefined ? (
        <>
          <Step at={expiresMs} colour="--line-strong" title="Lease ends">
            <span className="muted">A commit counts until the grace is over.</span>
          </Step>
          <Step
            at={reclaimMs}
            colour="--line-strong"
            title={`${waits ? 'Waits for a cleanup' : 'Expires'}, unless it is settled or extended`}
          >
            <span className="muted">
              {waits
                ? 'The amount stays held until an operator cleans it up or it is released.'
                : `The ${cost === undefined ? 'amount' : 'rest'} then returns to every budget.`}
            </span>
          </Step>
        </>
      ) : (
        <End history={history} end={history.end} />
      )}
    </ol>
  );
}

function End({
  history,
  end,
}: {
  history: ReservationHistory;
  end: NonNullable<ReservationHistory['end']>;
}): ReactNode {
  const [words, colour] = ENDS[end.how] ?? [end.how, '--muted'];
  return (
    <Step at={end.at_ms} colour={colour} title={words}>
      <div>
        {end.by !== undefined && (
          <>
            by <Who type={end.by.type} tenant={history.tenant_id} id={end.by.key_id} />{' '}
          </>
        )}
        {end.at_ms !== undefined && (
          <span className="muted">after {formatDuration(end.at_ms - history.created_at_ms)}</span>
        )}
      </div>
      {end.charged !== undefined && (
        <div>
          Charged <Amount amount={end.charged.amount} unit={end.charged.unit} withUnit exact />
        </div>
      )}
      {end.reason !== undefined && <div>{end.reason}</div>}
      {end.returned.length > 0 && (
        <ul className="muted small" style={{ listStyle: 'none' }}>
          {end.returned.map(({ scope, unit, amount }) => (
            <li key={scope} className="returned">
              <Amount amount={amount} unit={unit} exact /> returned to {scope}
            </li>
          ))}
        </ul>
      )}
      {end.refunded !== undefined && (
        <div>
          Refunded <Amount amount={end.refunded.amount} unit={end.refunded.unit} withUnit exact />
        </div>
      )}
      {end.event !== undefined && (
        <>
          <div className="muted small">
            Told by the event {end.event.event_type}{' '}
            <EventLink id={end.event.event_id} className="id in-text" />
          </div>
          <ToldTo event={end.event.event_id} />
        </>
      )}
    </Step>
  );
}
