import type { ReactNode } from 'react';
import { serverNowMs } from '../../api/server-time';
import { formatAmount, unitWord } from '../../parts/amount';
import { Time } from '../../parts/time';
import { amountOf, type UsageReport } from './usage';

/** The archive follows the ledger by about a minute, which is not worth a word. */
const USUAL_LAG_MS = 120_000;

/** Whether a report has every charge of its time. */
export function isWhole(report: UsageReport, from: string, to: string): boolean {
  const { complete_from_ms: fromMs, complete_through_ms: throughMs, gaps } = report;
  const endMs = Math.min(Date.parse(to), serverNowMs());
  return gaps.length === 0 && fromMs <= Date.parse(from) && throughMs >= endMs - USUAL_LAG_MS;
}

/** What a report without a charge says: that there was none, or that none is known. */
export function nothingOf(report: UsageReport, from: string, to: string): string {
  return isWhole(report, from, to) ? 'Nothing was charged' : 'The archive has no charges';
}

/** Says what of a report is not there: what the archive does not reach back to, what is not archived yet, what the archive has lost, and what is superseded. */
export function Incomplete({
  report,
  from,
  to,
  title,
}: {
  report: UsageReport;
  from: string;
  to: string;
  /** What the report is, on a page that has more than it. */
  title?: string;
}): ReactNode {
  const { complete_from_ms: fromMs, complete_through_ms: throughMs, gaps } = report;
  const endMs = Math.min(Date.parse(to), serverNowMs());
  const isBehind = endMs - throughMs > USUAL_LAG_MS;
  // At first, it begins later than where it has come to.
  const hasBegun = throughMs > fromMs;
  const beginsLater = hasBegun && fromMs > Date.parse(from);
  const superseded = report.totals.filter((total) => BigInt(total.superseded_count) > 0n);
  if (!isBehind && !beginsLater && gaps.length === 0 && superseded.length === 0) {
    return null;
  }
  return (
    <div className="notice warn" role="status">
      {title !== undefined && <strong>{title}</strong>}
      {superseded.map(({ unit, superseded: amount, superseded_count: count }) => (
        <p key={unit}>
          Redis was put back to an earlier state: {formatAmount(amountOf(amount), unit)} {unitWord(unit)} in{' '}
          {String(count)} charges of the time that it lost are superseded, and in no sum.
        </p>
      ))}
      {beginsLater && (
        <p>
          Complete from <Time at={fromMs} />. The archive does not have all charges from before.
        </p>
      )}
      {isBehind && (
        <p>
          {!hasBegun ? (
            report.totals.length === 0 ? (
              'Nothing is archived yet, so nothing is in the report.'
            ) : (
              'The report has the days that were published. Nothing later is archived yet.'
            )
          ) : (
            <>
              Complete through <Time at={throughMs} />. Later charges follow once they are archived.
            </>
          )}
        </p>
      )}
      {gaps.length > 0 && (
        <>
          <p>The archive has lost charges of:</p>
          <ul style={{ paddingLeft: 20 }}>
            {gaps.map(({ from_ms: fromMs, to_ms: toMs, file, partition }) => (
              <li key={`${fromMs} ${toMs} ${partition} ${file}`}>
                <Time at={fromMs} /> to <Time at={toMs} />
                {file !== undefined && <span className="muted"> in {file}</span>}
              </li>
            ))}
          </ul>
        </>
      )}
    </div>
  );
}
