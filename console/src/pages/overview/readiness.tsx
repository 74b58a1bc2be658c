import type { ReactNode } from 'react';
import type { Check, LiveSnapshot } from '../../../../src/console/page-answers';

/** The checks in the order in which they are shown; those that are not named here follow. */
const NAMES: Readonly<Record<string, string>> = {
  redis: 'Redis',
  sweeper: 'Sweeper',
  dispatcher: 'Webhooks',
  audit: 'Audit log',
  archiver: 'Archive',
  evidence: 'Evidence',
  errors: 'No unexpected errors',
  shutdown: 'Not shutting down',
};
const ORDER = Object.keys(NAMES);
/** What is down is no longer as its name says. */
const WHEN_DOWN: Readonly<Record<string, string>> = {
  errors: 'Unexpected errors',
  shutdown: 'Shutting down',
};

const wordsFor = (name: string, isUp: boolean): string =>
  isUp ? (NAMES[name] ?? name) : (WHEN_DOWN[name] ?? `${NAMES[name] ?? name} is down`);

const placeOf = (name: string): number => (ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length);

/** The reasons of a check that is down, in words. */
function reasonsOf(name: string, check: Check): string[] {
  const reasons = [...(check.problems ?? []), ...(check.message === undefined ? [] : [check.message])];
  return reasons.length > 0 ? reasons : [`${NAMES[name] ?? name} is not ready, and gives no reason.`];
}

const pillOf = ({ status, warnings = [] }: Check): string =>
  status !== 'up' ? 'bad' : warnings.length > 0 ? 'warn' : 'good';

/** One line while all is well; otherwise what is wrong, and what to do. */
export function ReadinessNotice({
  readiness,
}: {
  readiness: LiveSnapshot['readiness'] | undefined;
}): ReactNode {
  if (readiness === undefined) {
    return (
      <div className="notice">
        <span className="muted">Waiting for the first figures</span>
      </div>
    );
  }
  const checks = Object.entries(readiness.details).sort(([one], [other]) => placeOf(one) - placeOf(other));
  const down = checks.filter(([, { status }]) => status === 'down');
  const warnings = checks.flatMap(([, check]) => check.warnings ?? []);
  const colour = !readiness.ready ? 'bad' : warnings.length > 0 ? 'warn' : '';
  return (
    <div className={`notice ${colour}`} role="status" aria-label="Readiness">
      <div className="row">
        <strong>{readiness.ready ? 'Ready for traffic' : 'Not ready for traffic'}</strong>
        {checks.map(([name, check]) => (
          <span key={name} className={`pill ${pillOf(check)}`}>
            {wordsFor(name, check.status === 'up')}
          </span>
        ))}
      </div>
      {down.flatMap(([name, check]) =>
        reasonsOf(name, check).map((reason) => (
          <p key={`${name} ${reason}`} style={{ marginTop: 6 }}>
            {reason}
          </p>
        )),
      )}
      {warnings.length > 0 && (
        <ul className="warnings" aria-label="Warnings">
          {warnings.map(({ code, message }) => (
            <li key={message}>
              {message[0]?.toUpperCase()}
              {message.slice(1)}. <span className="muted small id">{code}</span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
