import { Button } from '@mantine/core';
import { getRouteApi, Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { useList } from '../../api/list';
import { useMayChange } from '../../api/session';
import type { Budget } from '../../api/types';
import { Amount } from '../../parts/amount';
import { BudgetBar, usedPerMille } from '../../parts/budget-bar';
import { FilterBar, useFilterChange, useSetters } from '../../parts/filter-bar';
import { ChoiceFilter, TextFilter } from '../../parts/filters';
import { Listing } from '../../parts/loaded';
import { percentOf } from '../../parts/numbers';
import { PageHead } from '../../parts/panel';
import { Scope } from '../../parts/scope';
import { Empty } from '../../parts/states';
import { Status } from '../../parts/status';
import { Table } from '../../parts/table';
import { AsOf } from '../../parts/time';
import { useTitle } from '../../parts/title';
import { TenantFilter } from '../../parts/tenant-filter';
import { CreateBudget } from './create-budget';

const route = getRouteApi('/budgets');
const UNITS = {
  USD_MICROCENTS: 'US dollars',
  TOKENS: 'Tokens',
  CREDITS: 'Credits',
  RISK_POINTS: 'Risk points',
};
const STATUSES = { ACTIVE: 'Active', FROZEN: 'Frozen', CLOSED: 'Closed' };
const FILTERS = ['search', 'tenant_id', 'unit', 'status', 'sort_by'] as const;
const ORDERS = { debt: 'Debt', scope: 'Scope' };

export function Budgets(): ReactNode {
  useTitle('Budgets');
  const filters = route.useSearch();
  const mayChange = useMayChange();
  const [isCreating, setCreating] = useState(false);
  const sortBy = filters.sort_by ?? 'used';
  const list = useList(
    '/v1/admin/budgets',
    { ...filters, sort_by: sortBy, sort_dir: sortBy === 'scope' ? 'asc' : 'desc' },
    (answer) => answer.ledgers,
  );
  const change = useFilterChange<(typeof FILTERS)[number]>();
  const set = useSetters(FILTERS, change);
  return (
    <>
      <PageHead title="Budgets">
        {list.readAtMs !== undefined && <AsOf at={list.readAtMs} />}
        {mayChange && (
          <Button size="compact-sm" onClick={() => setCreating(true)}>
            Create budget
          </Button>
        )}
      </PageHead>
      <FilterBar filters={filters} names={FILTERS} change={change}>
        <TextFilter label="Scope contains" value={filters.search} onChange={set.search} />
        <TenantFilter value={filters.tenant_id} onChange={set.tenant_id} />
        <ChoiceFilter label="Unit" value={filters.unit} choices={UNITS} onChange={set.unit} />
        <ChoiceFilter label="Status" value={filters.status} choices={STATUSES} onChange={set.status} />
        <ChoiceFilter
          label="Order by"
          all="Use"
          value={sortBy === 'used' ? undefined : sortBy}
          choices={ORDERS}
          onChange={set.sort_by}
        />
      </FilterBar>
      <section className="panel">
        <Listing
          list={list}
          empty={<Empty title="No budgets here">Change the filters, or create a budget.</Empty>}
        >
          {(budgets) => <BudgetTable budgets={budgets} isTree={sortBy === 'scope'} />}
        </Listing>
      </section>
      {isCreating && <CreateBudget tenantId={filters.tenant_id} close={() => setCreating(false)} />}
    </>
  );
}

const INDENT_PX = 18;

function BudgetTable({ budgets, isTree }: { budgets: readonly Budget[]; isTree: boolean }): ReactNode {
  return (
    <Table
      label="Budgets"
      columns={[
        'Scope',
        { wide: 'Spent, held and debt' },
        { right: 'Used' },
        { right: 'Remaining' },
        { right: 'Allocated' },
        'Status',
      ]}
      items={budgets}
    >
      {(budget) => <BudgetRow key={budget.ledger_id} budget={budget} isTree={isTree} />}
    </Table>
  );
}

function BudgetRow({ budget, isTree }: { budget: Budget; isTree: boolean }): ReactNode {
  const { scope, unit, allocated, remaining, status } = budget;
  const depth = isTree ? scope.split('/').length - 1 : 0;
  return (
    <tr>
      <td style={{ minWidth: 150, paddingLeft: depth === 0 ? undefined : 16 + depth * INDENT_PX }}>
        <Link to="/budgets/$unit" params={{ unit }} search={{ scope }}>
          <Scope path={scope} />
        </Link>
      </td>
      <td className="wide-only" style={{ width: '22%' }}>
        <BudgetBar budget={budget} />
      </td>
      <td className="right num">{percentOf(Math.floor(usedPerMille(budget) / 10) / 100)}</td>
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
