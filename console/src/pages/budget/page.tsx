import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { get } from '../../api/client';
import { useMayChange } from '../../api/session';
import type { Budget } from '../../api/types';
import { Amount } from '../../parts/amount';
import { BudgetBar } from '../../parts/budget-bar';
import { PageHead, Panel } from '../../parts/panel';
import { Runway, useCharges } from '../../parts/runway';
import { Scope } from '../../parts/scope';
import { Empty, Failure, Loading } from '../../parts/states';
import { Status, wordOf } from '../../parts/status';
import { Time } from '../../parts/time';
import { useTitle } from '../../parts/title';
import { Freeze, Fund, OverdraftLimit } from './changes';
import { Credits } from './credits';
import { BudgetHistory } from './history';
import { LastDenials, LiveHolds } from './lists';
import { Period } from './period';
import { useWindows } from './recurrence';
import { Thresholds } from './thresholds';
import { BudgetUsage } from './usage';
import { Windows } from './windows';

const route = getRouteApi('/budgets/$unit');
const EVERY_MS = 5000;
const ORIGIN = '/ops/budgets/template';
type Change = 'fund' | 'freeze' | 'overdraft';

/** One budget: its figures, what holds it, and whom it refused. */
export function BudgetPage(): ReactNode {
  const { unit } = route.useParams();
  const { scope = '' } = route.useSearch();
  useTitle(scope === '' ? 'Budget' : `${scope} in ${unit}`);
  const { data, error, refetch } = useQuery({
    queryKey: ['/v1/admin/budgets', 'lookup', scope, unit],
    queryFn: () => get('/v1/admin/budgets/lookup', { scope, unit }),
    refetchInterval: EVERY_MS,
    enabled: scope !== '',
  });
  if (scope === '') {
    return (
      <Empty title="No scope is given">
        <Link to="/budgets">Choose a budget</Link>
      </Empty>
    );
  }
  if (data === undefined) {
    return error ? <Failure error={error} retry={() => void refetch()} /> : <Loading height={400} />;
  }
  return <BudgetView budget={data} />;
}

function BudgetView({ budget }: { budget: Budget }): ReactNode {
  const [change, setChange] = useState<Change>();
  const mayChange = useMayChange() && budget.status !== 'CLOSED';
  const close = (): void => setChange(undefined);
  return (
    <>
      <PageHead title={<Scope path={budget.scope} />}>
        <Status value={budget.status} />
        {mayChange && (
          <>
            <Button size="compact-sm" onClick={() => setChange('fund')}>
              Fund or reset
            </Button>
            <Button size="compact-sm" variant="default" onClick={() => setChange('overdraft')}>
              Overdraft limit
            </Button>
            <Button size="compact-sm" variant="default" onClick={() => setChange('freeze')}>
              {budget.status === 'FROZEN' ? 'Unfreeze' : 'Freeze'}
            </Button>
          </>
        )}
      </PageHead>
      <div className="stack">
        <Figures budget={budget} />
        <div className="grid" style={{ alignItems: 'start' }}>
          <Period budget={budget} />
          <Windows budget={budget} />
          <Credits budget={budget} />
          <LiveHolds budget={budget} />
          <LastDenials budget={budget} />
          <BudgetUsage budget={budget} />
          <BudgetHistory budget={budget} />
          <Thresholds budget={budget} />
        </div>
      </div>
      {change === 'fund' && <Fund budget={budget} close={close} />}
      {change === 'freeze' && <Freeze budget={budget} close={close} />}
      {change === 'overdraft' && <OverdraftLimit budget={budget} close={close} />}
    </>
  );
}

/** Which template has made the budget, if one has. */
function MadeBy({ budget: { scope, unit, tenant_id: tenant } }: { budget: Budget }): ReactNode {
  const { data } = useQuery({
    queryKey: [ORIGIN, scope, unit],
    queryFn: () => get(ORIGIN, { scope, unit }),
    staleTime: Infinity,
  });
  return data?.template_id === undefined ? null : (
    <>
      {' '}
      by the template{' '}
      <Link to="/tenants/$id" params={{ id: tenant }} className="in-text">
        {data.template_id}
      </Link>
    </>
  );
}

function Figures({ budget }: { budget: Budget }): ReactNode {
  const charges = useCharges(budget.scope);
  const { data: turning } = useWindows(budget);
  const { unit, allocated, remaining, spent, reserved, debt } = budget;
  const figures = [
    ['Remaining', remaining, undefined],
    ['Spent', spent, '--spent'],
    ['Held', reserved, '--held'],
    ['Debt', debt, '--debt'],
  ] as const;
  return (
    <Panel
      title="Figures"
      aside={
        <>
          last changed, by somebody or a new period, <Time at={budget.updated_at} />
        </>
      }
    >
      <div className="figures">
        {figures.map(([label, { amount }, colour]) => (
          <div key={label}>
            <div className="muted">
              {colour !== undefined && <span className="swatch" style={{ background: `var(${colour})` }} />}
              {label}
            </div>
            <div className="figure">
              <Amount amount={amount} unit={unit} exact />
            </div>
          </div>
        ))}
      </div>
      <div style={{ margin: '14px 0 8px' }}>
        <BudgetBar budget={budget} />
      </div>
      <p>
        <Runway budget={budget} windows={turning?.windows} charges={charges} />
      </p>
      <p className="muted small">
        Allocated <Amount amount={allocated.amount} unit={unit} withUnit exact />, overdraft limit{' '}
        <Amount amount={budget.overdraft_limit.amount} unit={unit} exact />, created{' '}
        <Time at={budget.created_at} />
        <MadeBy budget={budget} />. If a commit costs more:{' '}
        {wordOf(budget.commit_overage_policy ?? 'as the tenant says').toLowerCase()}.
      </p>
    </Panel>
  );
}
