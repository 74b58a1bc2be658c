import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { Amount } from '../../parts/amount';
import { KeyName } from '../../parts/key-name';
import { COUNT, numberFormat } from '../../parts/numbers';
import { Panel } from '../../parts/panel';
import { Scope } from '../../parts/scope';
import { type Column, Table } from '../../parts/table';
import { colourOf } from './chart';
import { filterOf, KEYS } from './filters';
import { amountOf, nameOf, type Usage, type UsageRow, wordsOf } from './usage';

const SCALE = 10_000n;
/** With one decimal, also where it is 0, so that a column is even. */
const SHARE = numberFormat({ style: 'percent', minimumFractionDigits: 1, maximumFractionDigits: 1 });

export function shareOf(part: UsageRow, whole: UsageRow | undefined): string {
  const all = amountOf(whole?.charged ?? 0);
  return all === 0n ? '–' : SHARE.format(Number((amountOf(part.charged) * SCALE) / all) / Number(SCALE));
}

/** Refunds have a column where the report has any. They are taken off what was charged already. */
const hasRefunds = (total: UsageRow | undefined): boolean => amountOf(total?.refunded ?? 0) > 0n;

export function Figures({ row, usage }: { row: UsageRow; usage: Usage }): ReactNode {
  const { unit, total } = usage;
  return (
    <>
      <td className="right num">{COUNT.format(row.count)}</td>
      {hasRefunds(total) && (
        <td className="right">
          <Amount amount={amountOf(row.refunded)} unit={unit} />
        </td>
      )}
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

export const figuresOf = ({ total }: Usage): readonly Column[] => [
  { right: 'Charges' },
  ...(hasRefunds(total) ? [{ right: 'Refunded' }] : []),
  { right: 'Released' },
  { right: 'Expired' },
  { right: 'Tokens in / out' },
];

/** The largest, with their colours in the chart. */
export function TopTable({ usage, by }: { usage: Usage; by: readonly string[] }): ReactNode {
  const { top, total, unit } = usage;
  return (
    <Panel title={`The ${top.length === 1 ? 'largest' : `${top.length} largest`}`} flush>
      <Table
        label="The largest"
        columns={[
          ...by.map((key) => KEYS[key] ?? key),
          { right: 'Charged' },
          { right: 'Share' },
          ...figuresOf(usage),
        ]}
        items={top}
      >
        {(series, place) => (
          <tr key={nameOf(series)}>
            {by.map((key, index) => (
              <td key={key} style={{ minWidth: 130 }}>
                {index === 0 && <span className="swatch" style={{ background: colourOf(place) }} />}
                <Name by={key} name={series.names[index]} unit={unit} />
              </td>
            ))}
            <td className="right">
              <Amount amount={amountOf(series.row.charged)} unit={unit} withUnit />
            </td>
            <td className="right num">{shareOf(series.row, total)}</td>
            <Figures row={series.row} usage={usage} />
          </tr>
        )}
      </Table>
    </Panel>
  );
}

/** Leads to what the charges with this value are made of: those of a tenant by scope, of anything else by model. */
function Name({ by, name, unit }: { by: string; name: string | undefined; unit: string }): ReactNode {
  if (name === undefined) {
    return <span className="muted">{wordsOf(name)}</span>;
  }
  const next = by === 'tenant' ? 'scope' : by === 'action_name' ? 'dimension:user_id' : 'action_name';
  return (
    <>
      <Link
        from="/usage"
        search={((old: object) => ({ ...old, ...filterOf(by, name), by: next, and: undefined })) as never}
        title="What these charges are made of"
      >
        {by === 'scope' ? (
          <Scope path={name} />
        ) : by === 'key_id' ? (
          <span className="id">{name}</span>
        ) : (
          wordsOf(name)
        )}
      </Link>
      {by === 'tenant' && (
        <Link className="small beside" to="/tenants/$id" params={{ id: name }}>
          tenant
        </Link>
      )}
      {by === 'key_id' && (
        <span className="small beside">
          <KeyName id={name} />
        </span>
      )}
      {by === 'scope' && (
        <Link className="small beside" to="/budgets/$unit" params={{ unit }} search={{ scope: name }}>
          budget
        </Link>
      )}
    </>
  );
}
