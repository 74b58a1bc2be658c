import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { serverNowMs } from '../../api/server-time';
import { Amount } from '../../parts/amount';
import { Panel } from '../../parts/panel';
import { Table } from '../../parts/table';
import { Figures, figuresOf, shareOf } from './tables';
import {
  amountOf,
  dayAfter,
  longDayWords,
  startOf,
  type Usage,
  type UsageReport,
  type UsageRow,
} from './usage';

/** Days one after the other without a charge, and why. */
interface Stretch {
  readonly first: string;
  readonly last: string;
  readonly why: string;
}

/** A day with charges. */
interface Charged {
  readonly row: UsageRow;
}

/** Why there is no charge on a day: there was none, or the archive does not have it. */
function whyEmpty(day: string, zone: string, report: UsageReport): string {
  const [fromMs, toMs] = [startOf(day, zone), startOf(dayAfter(day), zone)];
  const { complete_from_ms: completeFromMs, complete_through_ms: throughMs, gaps } = report;
  if (gaps.some((gap) => gap.from_ms < toMs && gap.to_ms > fromMs)) {
    return 'no data: the archive has lost charges of then';
  }
  if (fromMs >= serverNowMs()) {
    return 'still to come';
  }
  if (throughMs > 0 && toMs <= completeFromMs) {
    return 'no data: the archive begins later';
  }
  return fromMs >= throughMs ? 'no data: not archived yet' : 'nothing was charged';
}

/** The days of a report, the latest first: the row of each that has charges, and the stretches of those that have none. */
export function rowsOf(
  days: readonly string[],
  zone: string,
  { days: charged, report }: Pick<Usage, 'days' | 'report'>,
): (Charged | Stretch)[] {
  const rows: (Charged | Stretch)[] = [];
  for (const day of [...days].reverse()) {
    const row = charged.get(day);
    const before = rows.at(-1);
    const why = row === undefined ? whyEmpty(day, zone, report) : '';
    if (row !== undefined) {
      rows.push({ row });
    } else if (before !== undefined && 'why' in before && before.why === why) {
      rows[rows.length - 1] = { ...before, first: day };
    } else {
      rows.push({ first: day, last: day, why });
    }
  }
  return rows;
}

/** Each day, the latest first. One with charges leads to them. */
export function DayTable({
  usage,
  days,
  zone,
}: {
  usage: Usage;
  days: readonly string[];
  zone: string;
}): ReactNode {
  const { unit, total } = usage;
  const figures = figuresOf(usage);
  return (
    <Panel title="Day by day" flush>
      <Table
        label="Day by day"
        columns={['Day', { right: 'Charged' }, { right: 'Share' }, ...figures]}
        items={rowsOf(days, zone, usage)}
      >
        {(day) =>
          'why' in day ? (
            <tr key={day.first} className="muted">
              <td className="num">{stretchWords(day)}</td>
              <td colSpan={2 + figures.length}>{day.why}</td>
            </tr>
          ) : (
            <tr key={day.row.day ?? ''}>
              <td className="num">
                <Link
                  from="/usage"
                  search={((old: object) => ({ ...old, from: day.row.day, to: day.row.day })) as never}
                  title="The charges of this day"
                >
                  {longDayWords(day.row.day ?? '')}
                </Link>
              </td>
              <td className="right">
                <Amount amount={amountOf(day.row.charged)} unit={unit} withUnit />
              </td>
              <td className="right num">{shareOf(day.row, total)}</td>
              <Figures row={day.row} usage={usage} />
            </tr>
          )
        }
      </Table>
    </Panel>
  );
}

const stretchWords = ({ first, last }: Stretch): string =>
  first === last ? longDayWords(first) : `${longDayWords(first)} to ${longDayWords(last)}`;
