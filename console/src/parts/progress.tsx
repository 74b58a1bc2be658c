import type { ReactNode } from 'react';
import { COUNT } from './numbers';

/** How far something has come. Without `of` its end is not known, and the bar only shows that it goes on. */
export function Progress({
  label,
  done,
  of,
  unit,
  isRunning = true,
  children,
}: {
  label: string;
  done: number;
  of?: number | undefined;
  /** What is counted, as a plural. */
  unit: string;
  isRunning?: boolean;
  /** For example a button to stop it. */
  children?: ReactNode;
}): ReactNode {
  const isKnown = of !== undefined;
  const share = isKnown ? (of === 0 ? 100 : Math.min(100, (done / of) * 100)) : isRunning ? 30 : 100;
  const words = isKnown
    ? `${COUNT.format(done)} of ${COUNT.format(of)} ${unit}`
    : `${COUNT.format(done)} ${unit}`;
  return (
    <div className="progress">
      <div
        className="bar"
        role="progressbar"
        aria-label={label}
        aria-valuetext={words}
        aria-busy={isRunning}
        {...(isKnown ? { 'aria-valuemin': 0, 'aria-valuemax': of, 'aria-valuenow': Math.min(done, of) } : {})}
      >
        <span className={isKnown || !isRunning ? '' : 'moving'} style={{ width: `${share}%` }} />
      </div>
      <div className="row" style={{ justifyContent: 'space-between' }}>
        <span className="muted small num">{words}</span>
        {children}
      </div>
    </div>
  );
}
