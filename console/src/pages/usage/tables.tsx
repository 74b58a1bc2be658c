import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { Amount } from '../../parts/amount';
import { COUNT, numberFormat } from '../../parts/numbers';
import { Panel } from '../../parts/panel';
import { Scope } from '../../parts/scope';
import { Table } from '../../parts/table';
import { colourOf } from './chart';
import { amountOf, longDayWords, type Series, type Usage, type UsageRow } from './usage';

const SCALE = 10_000n;
/** With one decimal, also where it is 0, so that a column is even. */
const SHARE = numberFormat({ style: 'percent', minimumFractionDigits: 1, maximumFractionDigits: 1 });

function shareOf(part: UsageRow, whole: UsageRow | undefined): string {
  const all = amountOf(whole?.charged ?? 0);
  return all === 0n ? '–' : SHARE.format(Number((amountOf(part.charged) * SCALE) / all) / Number(SCALE));
}

function Figures({ row, unit }: { row: UsageRow; unit: string }): ReactNode {
  return (
    <>
      <td className="right num">{COUNT.format(row.count)}</td>
      <td className="right">
        <Amount amount={amountOf(row.released)} unit={unit} />
      </td>
      <td className="right">
        <Amount amount={amountOf(row.expired)} unit={unit} />
      </td>
      <td className="right num">
        {COUNT.format(amountOf(row.tokens_input))} / {COUNT.format(amountOf(row.tokens_output))}
      </td>
    </>
  );
}

const FIGURES = [
  { right: 'Charges' },
  { right: 'Released' },
  { right: 'Expired' },
  { right: 'Tokens in / out' },
] as const;

/** The largest, with their colours in the chart. */
export function TopTable({
  usage,
  by,
  nameOf,
}: {
  usage: Usage;
  by: string;
  nameOf: (series: Series) => string;
}): ReactNode {
  const { top, total, unit } = usage;
  return (
    <Panel title={`The ${top.length === 1 ? 'largest' : `${top.length} largest`}`} flush>
      <Table
        label="The largest"
        columns={['Name', { right: 'Charged' }, { right: 'Share' }, ...FIGURES]}
        items={top}
      >
        {(series, place) => (
          <tr key={series.name ?? ''}>
            <td style={{ minWidth: 170 }}>
              <span className="swatch" style={{ background: colourOf(place) }} />
              <Name by={by} series={series} unit={unit} words={nameOf(series)} />
            </td>
            <td className="right">
              <Amount amount={amountOf(series.row.charged)} unit={unit} withUnit />
            </td>
            <td className="right num">{shareOf(series.row, total)}</td>
            <Figures row={series.row} unit={unit} />
          </tr>
        )}
      </Table>
    </Panel>
  );
}

/** Leads to the tenant or the budget, where it is one. */
function Name({
  by,
  series: { name },
  unit,
  words,
}: {
  by: string;
  series: Series;
  unit: string;
  words: string;
}): ReactNode {
  if (name === undefined) {
    return <span className="muted">{words}</span>;
  }
  if (by === 'tenant') {
    return (
      <Link to="/tenants/$id" params={{ id: name }}>
        {name}
      </Link>
    );
  }
  return by === 'scope' ? (
    <Link to="/budgets/$unit" params={{ unit }} search={{ scope: name }}>
      <Scope path={name} />
    </Link>
  ) : (
    words
  );
}

/** Each day that had charges, the latest first. */
export function DayTable({ usage, days }: { usage: Usage; days: readonly string[] }): ReactNode {
  const { unit, total } = usage;
  const rows = days.flatMap((day) => usage.days.get(day) ?? []).reverse();
  return (
    <Panel title="Day by day" flush>
      <Table
        label="Day by day"
        columns={['Day', { right: 'Charged' }, { right: 'Share' }, ...FIGURES]}
        items={rows}
      >
        {(row) => (
          <tr key={row.day ?? ''}>
            <td className="num">{longDayWords(row.day ?? '')}</td>
            <td className="right">
              <Amount amount={amountOf(row.charged)} unit={unit} withUnit />
            </td>
            <td className="right num">{shareOf(row, total)}</td>
            <Figures row={row} unit={unit} />
          </tr>
        )}
      </Table>
    </Panel>
  );
}
