import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { get } from '../../api/client';
import { useOverview } from '../../api/overview';
import { serverNowMs } from '../../api/server-time';
import type { Budget } from '../../api/types';
import { Amount } from '../../parts/amount';
import { BudgetBar, perMille, usedPerMille } from '../../parts/budget-bar';
import { Loaded } from '../../parts/loaded';
import { percentOf } from '../../parts/numbers';
import { Panel } from '../../parts/panel';
import { Runway, useCharges } from '../../parts/runway';
import { Scope } from '../../parts/scope';
import { Empty } from '../../parts/states';
import { Table } from '../../parts/table';
import { AsOf, Time } from '../../parts/time';
import { type BudgetWindow, useWindows } from '../budget/recurrence';

const EVERY_MS = 10_000;
/** Each budget that is shown is a request. */
const WINDOWS_EVERY_MS = 30_000;

const SHOWN = 8;
/** The list reads all budgets. However long that takes, it takes no more than a small share of the time. */
const SHARE = 10;

/** The budgets of all tenants that are used most. */
export function TightBudgets(): ReactNode {
  const tight = useQuery({
    queryKey: ['budgets', 'tight'],
    queryFn: async () => {
      const asked = performance.now();
      const query = { sort_by: 'used', sort_dir: 'desc', limit: SHOWN };
      const { ledgers } = await get('/v1/admin/budgets', query);
      return { ledgers, tookMs: performance.now() - asked, atMs: serverNowMs() };
    },
    refetchInterval: ({ state }) => Math.max(EVERY_MS, SHARE * (state.data?.tookMs ?? 0)),
  });
  return (
    <Panel
      title="Budgets nearest their limits"
      className="span-8"
      flush
      aside={tight.data && <AsOf at={tight.data.atMs} />}
    >
      <Loaded query={tight} height={240}>
        {({ ledgers }) =>
          ledgers.length === 0 ? (
            <Empty title="No budgets yet">
              <Link to="/budgets">Create one</Link>
            </Empty>
          ) : (
            <Table
              label="Budgets nearest their limits"
              columns={[
                'Scope',
                { wide: 'Use' },
                { right: 'Used' },
                { right: 'Remaining' },
                { right: 'Allocated' },
              ]}
              items={ledgers}
            >
              {(budget) => <BudgetRow key={budget.ledger_id} budget={budget} />}
            </Table>
          )
        }
      </Loaded>
    </Panel>
  );
}

const windowUse = ({ limit, remaining }: BudgetWindow): number =>
  perMille(BigInt(limit.amount) - BigInt(remaining.amount), limit.amount);

/** The window of a budget that is used most, if it is used more than the budget itself. */
function tightestOf(budget: Budget, windows: readonly BudgetWindow[]): BudgetWindow | undefined {
  const [tightest] = [...windows].sort((one, other) => windowUse(other) - windowUse(one));
  return tightest !== undefined && windowUse(tightest) > usedPerMille(budget) ? tightest : undefined;
}

function BudgetRow({ budget }: { budget: Budget }): ReactNode {
  const { scope, unit, allocated, remaining } = budget;
  const { data: { windows = [] } = {} } = useWindows(budget, WINDOWS_EVERY_MS);
  const charges = useCharges();
  const window = tightestOf(budget, windows);
  const used = window === undefined ? usedPerMille(budget) : windowUse(window);
  // What a budget holds, each of its windows holds.
  const shown = window === undefined ? budget : { ...budget, allocated: window.limit, spent: window.spent };
  return (
    <tr>
      <td>
        <Link to="/budgets/$unit" params={{ unit }} search={{ scope }}>
          <Scope path={scope} />
        </Link>
        {window !== undefined && (
          <div className="muted small">
            window {window.name}: <Amount amount={window.remaining.amount} unit={unit} withUnit /> remain
          </div>
        )}
        <div className="muted small">
          <Runway budget={budget} windows={windows} charges={charges} />
        </div>
      </td>
      <td className="wide-only" style={{ width: 100 }}>
        <BudgetBar budget={shown} />
      </td>
      <td className="right num">{percentOf(Math.floor(used / 10) / 100)}</td>
      <td className="right">
        <Amount amount={remaining.amount} unit={unit} withUnit />
      </td>
      <td className="right">
        <Amount amount={allocated.amount} unit={unit} />
      </td>
    </tr>
  );
}

/** Subscriptions whose last deliveries failed, and how many were disabled because of it. */
export function FailingWebhooks(): ReactNode {
  const overview = useOverview();
  const disabled = overview.data?.webhook_counts.disabled ?? 0;
  return (
    <Panel
      title="Webhooks that fail"
      className="span-4"
      flush
      aside={
        <>
          {disabled > 0 && (
            <Link to="/webhooks" search={{ status: 'DISABLED' }}>
              {disabled} disabled
            </Link>
          )}{' '}
          {overview.data && <AsOf at={overview.data.as_of} />}
        </>
      }
    >
      <Loaded query={overview} height={240}>
        {({ failing_webhooks: failing }) =>
          failing.length === 0 ? (
            <Empty title={disabled > 0 ? 'No active subscription fails' : 'No subscription fails'}>
              {disabled > 0
                ? 'Those that were disabled get nothing until somebody resumes them.'
                : 'Subscriptions with failures in a row would be listed here.'}
            </Empty>
          ) : (
            <Table
              label="Webhooks that fail"
              columns={['Endpoint', { right: 'Failures' }, { right: 'Last' }]}
              items={failing}
            >
              {({ subscription_id: id, url, consecutive_failures: failures, last_failure_at: last }) => (
                <tr key={id}>
                  <td className="url">
                    <Link to="/webhooks/$id" params={{ id }} className="id">
                      {url}
                    </Link>
                    <div className="muted small id">{id}</div>
                  </td>
                  <td className="right num">{failures}</td>
                  <td className="right">{last === undefined ? '–' : <Time at={last} clock />}</td>
                </tr>
              )}
            </Table>
          )
        }
      </Loaded>
    </Panel>
  );
}
