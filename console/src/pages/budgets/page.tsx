import { Button } from '@mantine/core';
import { getRouteApi, Link } from '@tanstack/react-router';
import { type ReactNode, useCallback, useState } from 'react';
import { useList } from '../../api/list';
import { useMayChange } from '../../api/session';
import type { Budget } from '../../api/types';
import { Amount } from '../../parts/amount';
import { BudgetBar, usedPerMille } from '../../parts/budget-bar';
import { ChoiceFilter, TextFilter } from '../../parts/filters';
import { MoreRows } from '../../parts/more-rows';
import { PageHead } from '../../parts/panel';
import { Scope } from '../../parts/scope';
import { Empty, Failure, Loading } from '../../parts/states';
import { Status } from '../../parts/status';
import { CreateBudget } from './create-budget';

const route = getRouteApi('/budgets');
const UNITS = {
  USD_MICROCENTS: 'US dollars',
  TOKENS: 'Tokens',
  CREDITS: 'Credits',
  RISK_POINTS: 'Risk points',
};
const ORDERS = { debt: 'Debt', scope: 'Scope' };

interface BudgetList {
  readonly ledgers: readonly Budget[];
  readonly has_more: boolean;
  readonly next_cursor?: string;
}

export function Budgets(): ReactNode {
  const filters = route.useSearch();
  const navigate = route.useNavigate();
  const mayChange = useMayChange();
  const [isCreating, setCreating] = useState(false);
  const sortBy = filters.sort_by ?? 'utilization';
  const list = useList(
    '/v1/admin/budgets',
    { ...filters, sort_by: sortBy, sort_dir: sortBy === 'scope' ? 'asc' : 'desc' },
    (answer: BudgetList) => answer.ledgers,
  );
  const set = (name: keyof typeof filters) => (value: string | undefined) =>
    void navigate({ search: (old) => ({ ...old, [name]: value }), replace: true });
  const setSearch = useCallback(
    (search: string | undefined) => void navigate({ search: (old) => ({ ...old, search }), replace: true }),
    [navigate],
  );
  const setTenant = useCallback(
    (tenant: string | undefined) =>
      void navigate({ search: (old) => ({ ...old, tenant_id: tenant }), replace: true }),
    [navigate],
  );
  return (
    <>
      <PageHead title="Budgets">
        {mayChange && (
          <Button size="compact-sm" onClick={() => setCreating(true)}>
            Create budget
          </Button>
        )}
      </PageHead>
      <div className="filters">
        <TextFilter label="Scope contains" value={filters.search} onChange={setSearch} />
        <TextFilter label="Tenant id" value={filters.tenant_id} onChange={setTenant} width={150} />
        <ChoiceFilter label="Unit" value={filters.unit} choices={UNITS} onChange={set('unit')} />
        <ChoiceFilter
          label="Status"
          value={filters.status}
          choices={{ ACTIVE: 'Active', FROZEN: 'Frozen', CLOSED: 'Closed' }}
          onChange={set('status')}
        />
        <ChoiceFilter
          label="Order by"
          all="Use"
          value={sortBy === 'utilization' ? undefined : sortBy}
          choices={ORDERS}
          onChange={set('sort_by')}
        />
      </div>
      <section className="panel">
        {list.error && list.rows === undefined ? (
          <Failure error={list.error} retry={() => void list.refetch()} />
        ) : list.rows === undefined ? (
          <Loading height={300} />
        ) : list.rows.length === 0 ? (
          <Empty title="No budgets here">Change the filters, or create a budget.</Empty>
        ) : (
          <>
            <BudgetTable budgets={list.rows} isTree={sortBy === 'scope'} />
            <MoreRows
              shown={list.rows.length}
              hasMore={list.hasNextPage}
              isLoading={list.isFetchingNextPage}
              load={() => void list.fetchNextPage()}
            />
          </>
        )}
      </section>
      {isCreating && <CreateBudget tenantId={filters.tenant_id} close={() => setCreating(false)} />}
    </>
  );
}

const INDENT_PX = 18;

function BudgetTable({ budgets, isTree }: { budgets: readonly Budget[]; isTree: boolean }): ReactNode {
  return (
    <div className="table-wrap" role="region" aria-label="Budgets" tabIndex={0}>
      <table className="table">
        <thead>
          <tr>
            <th>Scope</th>
            <th>Spent, held and debt</th>
            <th className="right">Used</th>
            <th className="right">Remaining</th>
            <th className="right">Allocated</th>
            <th>Status</th>
          </tr>
        </thead>
        <tbody>
          {budgets.map((budget) => (
            <BudgetRow key={budget.ledger_id} budget={budget} isTree={isTree} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function BudgetRow({ budget, isTree }: { budget: Budget; isTree: boolean }): ReactNode {
  const { scope, unit, allocated, remaining, status } = budget;
  const depth = isTree ? scope.split('/').length - 1 : 0;
  return (
    <tr>
      <td style={{ paddingLeft: 16 + depth * INDENT_PX }}>
        <Link to="/budgets/$unit" params={{ unit }} search={{ scope }}>
          <Scope path={scope} />
        </Link>
      </td>
      <td style={{ width: '22%' }}>
        <BudgetBar budget={budget} />
      </td>
      <td className="right num">{Math.floor(usedPerMille(budget) / 10)} %</td>
      <td className="right">
        <Amount amount={remaining.amount} unit={unit} withUnit />
      </td>
      <td className="right">
        <Amount amount={allocated.amount} unit={unit} />
      </td>
      <td>
        <Status value={status} />
      </td>
    </tr>
  );
}
