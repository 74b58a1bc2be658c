import type { ReactNode } from 'react';
import type { Check, LiveSnapshot } from '../../../../src/operators/page-answers';

/** The checks in the order in which they are shown; those that are not named here follow. */
const NAMES: Readonly<Record<string, string>> = {
  redis: 'Redis',
  sweeper: 'Sweeper',
  dispatcher: 'Webhooks',
  audit: 'Audit log',
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

/** One line while all is well; otherwise what is wrong. */
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
  return (
    <div className={`notice ${readiness.ready ? '' : 'bad'}`} role="status" aria-label="Readiness">
      <div className="row">
        <strong>{readiness.ready ? 'Ready for traffic' : 'Not ready for traffic'}</strong>
        {checks.map(([name, { status }]) => (
          <span key={name} className={`pill ${status === 'up' ? 'good' : 'bad'}`}>
            {wordsFor(name, status === 'up')}
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
    </div>
  );
}
