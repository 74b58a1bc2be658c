import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Int64 } from '../../api/json';
import { Amount } from '../../parts/amount';
import { COUNT } from '../../parts/numbers';
import { Panel } from '../../parts/panel';
import { Scope } from '../../parts/scope';
import type { Drift, JournalFault, Unreadable } from './run';
import { Table } from '../../parts/table';

const SHOWN = 200;

interface Kind {
  readonly words: string;
  readonly advice: string;
}

const KINDS: Readonly<Record<Drift['kind'], Kind>> = {
  RESERVED: {
    words: 'Held is not the sum of its live holds',
    advice: 'Take the difference from reserved, and give it to remaining, in one transaction.',
  },
  INVARIANT: {
    words: 'Remaining is not what the other figures leave',
    advice: 'Set remaining to allocated − spent − reserved − debt.',
  },
  UNREADABLE_BUDGET: {
    words: 'A figure cannot be read',
    advice: 'Restore the budget from a backup.',
  },
  MISSING_BUDGET: {
    words: 'There are holds, but no budget',
    advice: 'Restore the budget from a backup.',
  },
  PERIOD: {
    words: 'Its period or its windows are damaged',
    advice: 'Set its period, recurrence or windows again, or restore the budget from a backup.',
  },
  CREDITS: {
    words: 'Its credits are damaged',
    advice: 'Move the end of a credit to where it is, or restore the budget from a backup.',
  },
};

const figureOf = ({ kind, stored }: Drift): Int64 | undefined =>
  kind === 'INVARIANT' ? stored?.remaining : stored?.reserved;

/** The budgets that do not agree with their reservations. */
export function DriftTable({ drift }: { drift: readonly Drift[] }): ReactNode {
  return (
    <Panel
      title="Drift"
      flush
      aside={drift.length > SHOWN ? `the first ${SHOWN} of ${COUNT.format(drift.length)}` : ''}
    >
      <Table
        label="Drift"
        columns={[
          'Scope',
          'What is wrong',
          { right: 'Stored' },
          { right: 'Expected' },
          { right: 'Difference' },
          'Live holds',
        ]}
        items={drift.slice(0, SHOWN)}
      >
        {(found) => <DriftRow key={`${found.tenant_id} ${found.unit} ${found.scope}`} found={found} />}
      </Table>
    </Panel>
  );
}

function DriftRow({ found }: { found: Drift }): ReactNode {
  const { scope, unit, kind, expected, difference } = found;
  const cell = (amount: Int64 | undefined): ReactNode =>
    amount === undefined ? '–' : <Amount amount={amount} unit={unit} />;
  return (
    <tr>
      <td>
        <Link to="/budgets/$unit" params={{ unit }} search={{ scope }}>
          <Scope path={scope} />
        </Link>
        <div className="muted small">{unit}</div>
      </td>
      <td style={{ minWidth: 180 }}>{KINDS[kind].words}</td>
      <td className="right">{cell(figureOf(found))}</td>
      <td className="right">{cell(expected)}</td>
      <td className="right">
        <strong>{cell(difference)}</strong>
      </td>
      <td>
        <Holds found={found} />
      </td>
    </tr>
  );
}

function Holds({ found }: { found: Drift }): ReactNode {
  const { reservations, reservation_count: count, unit } = found;
  if (count === 0) {
    return 'none';
  }
  return (
    <details>
      <summary className="num">{COUNT.format(count)}</summary>
      <ul className="small" style={{ listStyle: 'none' }}>
        {reservations.map(({ reservation_id: id, amount, quarantined }) => (
          <li key={id}>
            <Link to="/reservations/$id" params={{ id }} className="id">
              {id}
            </Link>{' '}
            <Amount amount={amount} unit={unit} />
            {quarantined && <span className="muted"> in quarantine</span>}
          </li>
        ))}
        {reservations.length < count && <li>and {COUNT.format(count - reservations.length)} more</li>}
      </ul>
    </details>
  );
}

/** What an operator does about drift, in order. */
export function Advice({ drift }: { drift: readonly Drift[] }): ReactNode {
  const kinds = [...new Set(drift.map(({ kind }) => kind))];
  return (
    <Panel title="What to do">
      <ol className="steps">
        <li>Verify again. Real drift stays.</li>
        <li>Take a copy of Redis before you change anything.</li>
        <li>
          Look for another writer. The scripts cannot cause drift; evictions, partial restores, manual edits
          and a failover under load can.
        </li>
        {kinds.map((kind) => (
          <li key={kind}>
            {KINDS[kind].words}: {KINDS[kind].advice}
          </li>
        ))}
        <li>Verify again afterwards.</li>
      </ol>
      <p className="muted small" style={{ marginTop: 8 }}>
        The commands are in docs/playbook.md, under HoldfastLedgerDrift.
      </p>
    </Panel>
  );
}

const JOURNAL_FAULTS: Readonly<Record<JournalFault['kind'], string>> = {
  MISSING: 'Its end is missing in the journal',
  DOUBLED: 'Its end is in the journal more than once',
  LIVE: 'The journal has its end, but it has not ended',
  CHARGE: 'The journal has another charge than its record',
  REFUND: 'Its refunds in the journal do not add up to those of its record',
};

/** Reservations that cannot be read, and charges that the journal does not have exactly once as their records say. */
export function ReservationFindings({
  unreadable,
  journal,
}: {
  unreadable: readonly Unreadable[];
  journal: readonly JournalFault[];
}): ReactNode {
  const found = [
    ...journal.map((fault) => ({ ...fault, words: JOURNAL_FAULTS[fault.kind], quarantined: undefined })),
    ...unreadable.map((one) => ({
      ...one,
      words: `Its record cannot be read: ${one.reason.toLowerCase().replaceAll('_', ' ')}`,
    })),
  ];
  return (
    <Panel
      title="Reservations with faults"
      flush
      aside={found.length > SHOWN ? `the first ${SHOWN} of ${COUNT.format(found.length)}` : ''}
    >
      <Table
        label="Reservations with faults"
        columns={['Reservation', 'Tenant', 'What is wrong', 'What to do']}
        items={found.slice(0, SHOWN)}
      >
        {({ reservation_id: id, tenant_id: tenant, words, quarantined }) => (
          <tr key={`${id} ${words}`}>
            <td className="id">
              {id.startsWith('evn_') ? (
                <Link to="/events" search={{ event: id }}>
                  {id}
                </Link>
              ) : (
                <Link to="/reservations/$id" params={{ id }}>
                  {id}
                </Link>
              )}
            </td>
            <td className="id">
              <Link to="/tenants/$id" params={{ id: tenant }}>
                {tenant}
              </Link>
            </td>
            <td>{words}</td>
            <td>
              {quarantined === true ? (
                <Link to="/sweeper" search={{ reservation: id }}>
                  Decide: it is in quarantine
                </Link>
              ) : (
                <span className="muted">
                  {quarantined === false ? 'Decide once the sweeper has met it' : 'See docs/playbook.md'}
                </span>
              )}
            </td>
          </tr>
        )}
      </Table>
    </Panel>
  );
}
