import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { get } from '../../api/client';
import type { Budget } from '../../api/types';
import { Amount } from '../../parts/amount';
import { BudgetBar, usedPerMille } from '../../parts/budget-bar';
import { Scope } from '../../parts/scope';
import { Panel } from '../../parts/panel';
import { Empty, Failure, Loading } from '../../parts/states';
import { Time } from '../../parts/time';

const EVERY_MS = 10_000;

interface FailingWebhook {
  readonly subscription_id: string;
  readonly url: string;
  readonly consecutive_failures: number;
  readonly last_failure_at?: string;
}

/** The API sorts by what is spent; what is held as well decides here. */
const CANDIDATES = 30;
const SHOWN = 8;

/** The budgets of all tenants that are used most. */
export function TightBudgets(): ReactNode {
  const { data, error, refetch } = useQuery({
    queryKey: ['budgets', 'tight'],
    queryFn: () =>
      get<{ ledgers: Budget[] }>('/v1/admin/budgets', {
        sort_by: 'utilization',
        sort_dir: 'desc',
        limit: CANDIDATES,
      }),
    select: ({ ledgers }) =>
      [...ledgers].sort((one, other) => usedPerMille(other) - usedPerMille(one)).slice(0, SHOWN),
    refetchInterval: EVERY_MS,
  });
  return (
    <Panel title="Budgets nearest their limits" className="span-7" flush>
      {error && data === undefined ? (
        <Failure error={error} retry={() => void refetch()} />
      ) : data === undefined ? (
        <Loading height={240} />
      ) : data.length === 0 ? (
        <Empty title="No budgets yet">
          <Link to="/budgets">Create one</Link>
        </Empty>
      ) : (
        <div className="table-wrap" role="region" aria-label="Budgets nearest their limits" tabIndex={0}>
          <table className="table">
            <thead>
              <tr>
                <th>Scope</th>
                <th>Used</th>
                <th className="right">Remaining</th>
                <th className="right">Allocated</th>
              </tr>
            </thead>
            <tbody>
              {data.map((budget) => (
                <BudgetRow key={budget.ledger_id} budget={budget} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  );
}

function BudgetRow({ budget }: { budget: Budget }): ReactNode {
  const { scope, unit, allocated, remaining } = budget;
  const used = usedPerMille(budget);
  return (
    <tr>
      <td>
        <Link to="/budgets/$unit" params={{ unit }} search={{ scope }}>
          <Scope path={scope} />
        </Link>
      </td>
      <td style={{ width: '26%' }}>
        <div className="row" style={{ flexWrap: 'nowrap' }}>
          <div style={{ flex: 1 }}>
            <BudgetBar budget={budget} />
          </div>
          <span className="num small" style={{ width: 38, textAlign: 'right' }}>
            {Math.floor(used / 10)} %
          </span>
        </div>
      </td>
      <td className="right">
        <Amount amount={remaining.amount} unit={unit} withUnit />
      </td>
      <td className="right">
        <Amount amount={allocated.amount} unit={unit} />
      </td>
    </tr>
  );
}

/** Subscriptions whose last deliveries failed. */
export function FailingWebhooks(): ReactNode {
  const { data, error, refetch } = useQuery({
    queryKey: ['overview'],
    queryFn: () => get<{ failing_webhooks: FailingWebhook[] }>('/v1/admin/overview'),
    refetchInterval: EVERY_MS,
  });
  return (
    <Panel title="Webhooks that fail" className="span-5" flush>
      {error && data === undefined ? (
        <Failure error={error} retry={() => void refetch()} />
      ) : data === undefined ? (
        <Loading height={240} />
      ) : data.failing_webhooks.length === 0 ? (
        <Empty title="All deliveries arrive">
          Subscriptions with failures in a row would be listed here.
        </Empty>
      ) : (
        <div className="table-wrap" role="region" aria-label="Webhooks that fail" tabIndex={0}>
          <table className="table">
            <thead>
              <tr>
                <th>Endpoint</th>
                <th className="right">Failures</th>
                <th className="right">Last</th>
              </tr>
            </thead>
            <tbody>
              {data.failing_webhooks.map((webhook) => (
                <tr key={webhook.subscription_id}>
                  <td>
                    <div className="id">{webhook.url}</div>
                    <div className="muted small id">{webhook.subscription_id}</div>
                  </td>
                  <td className="right num">{webhook.consecutive_failures}</td>
                  <td className="right">
                    {webhook.last_failure_at === undefined ? (
                      '–'
                    ) : (
                      <Time at={webhook.last_failure_at} clock />
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  );
}
