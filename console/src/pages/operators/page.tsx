import { Button } from '@mantine/core';
import { getRouteApi, Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { useList } from '../../api/list';
import type { Schema } from '../../api/operations';
import { useIsAdmin } from '../../api/session';
import { FilterBar, useFilterChange, useSetters } from '../../parts/filter-bar';
import { ChoiceFilter } from '../../parts/filters';
import { Listing } from '../../parts/loaded';
import { PageHead } from '../../parts/panel';
import { Empty } from '../../parts/states';
import { Status, wordOf } from '../../parts/status';
import { Table } from '../../parts/table';
import { Time } from '../../parts/time';
import { useTitle } from '../../parts/title';
import { ChangeOperator, CreateOperator, OPERATORS, RevokeOperator, RotateOperator } from './forms';

type Operator = Schema<'Operator'>;
type Act = { readonly act: 'change' | 'rotate' | 'revoke'; readonly operator: Operator };

const route = getRouteApi('/operators');
const FILTERS = ['status'] as const;
const STATUSES = { ACTIVE: 'Active', EXPIRED: 'Expired', REVOKED: 'Revoked' };

export function Operators(): ReactNode {
  useTitle('Operators');
  const filters = route.useSearch();
  const isAdmin = useIsAdmin();
  const [isCreating, setCreating] = useState(false);
  const [chosen, setChosen] = useState<Act>();
  const list = useList(OPERATORS, filters, (answer) => answer.operators);
  const change = useFilterChange<(typeof FILTERS)[number]>();
  const set = useSetters(FILTERS, change);
  const end = (): void => setChosen(undefined);
  return (
    <>
      <PageHead title="Operators">
        {isAdmin && (
          <Button size="compact-sm" onClick={() => setCreating(true)}>
            Create operator
          </Button>
        )}
      </PageHead>
      <FilterBar filters={filters} names={FILTERS} change={change}>
        <ChoiceFilter label="Status" value={filters.status} choices={STATUSES} onChange={set.status} />
      </FilterBar>
      <section className="panel">
        <Listing
          list={list}
          empty={
            <Empty title="No operators here">
              Whoever acts with the admin key has no name in the audit log. Give each person and each machine
              a key of its own.
            </Empty>
          }
        >
          {(operators) => (
            <Table
              label="Operators"
              columns={['Operator', 'Role', 'Created', 'Ends', 'Status', { hidden: 'Look at and change' }]}
              items={operators}
            >
              {(operator) => (
                <OperatorRow
                  key={operator.name}
                  operator={operator}
                  choose={isAdmin ? (act) => setChosen({ act, operator }) : undefined}
                />
              )}
            </Table>
          )}
        </Listing>
      </section>
      {isCreating && <CreateOperator close={() => setCreating(false)} />}
      {chosen?.act === 'change' && <ChangeOperator {...chosen.operator} close={end} />}
      {chosen?.act === 'rotate' && <RotateOperator name={chosen.operator.name} close={end} />}
      {chosen?.act === 'revoke' && <RevokeOperator name={chosen.operator.name} close={end} />}
    </>
  );
}

/** An operator that has expired is not brought back. */
const ACTS: Readonly<Record<Operator['status'], readonly (readonly [Act['act'], string])[]>> = {
  ACTIVE: [
    ['change', 'Change'],
    ['rotate', 'Rotate'],
    ['revoke', 'Revoke'],
  ],
  EXPIRED: [['revoke', 'Revoke']],
  REVOKED: [],
};

function OperatorRow({
  operator,
  choose,
}: {
  operator: Operator;
  choose: ((act: Act['act']) => void) | undefined;
}): ReactNode {
  const { name, role, tenants, status, previous_key_until: overlap } = operator;
  const endsAt = operator.revoked_at ?? operator.expires_at;
  return (
    <tr>
      <td>
        {name}
        <div className="muted small id">{operator.key_prefix}…</div>
      </td>
      <td>
        {wordOf(role)}
        {!tenants.includes('*') && <div className="muted small">of {tenants.join(', ')}</div>}
      </td>
      <td>
        <Time at={operator.created_at} />
      </td>
      <td>
        {endsAt === undefined ? <span className="muted">never</span> : <Time at={endsAt} />}
        {operator.revoked_reason !== undefined && (
          <div className="muted small">{operator.revoked_reason}</div>
        )}
        {overlap !== undefined && (
          <div className="muted small">
            the key before: <Time at={overlap} />
          </div>
        )}
      </td>
      <td>
        <Status value={status} />
      </td>
      <td className="right">
        <div className="row actions">
          <Link to="/audit" search={{ key_id: `operator:${name}` }}>
            Audit log
          </Link>
          {choose !== undefined &&
            ACTS[status].map(([act, label]) => (
              <Button
                key={act}
                size="compact-xs"
                variant="default"
                aria-label={`${label} ${name}`}
                onClick={() => choose(act)}
              >
                {label}
              </Button>
            ))}
        </div>
      </td>
    </tr>
  );
}
