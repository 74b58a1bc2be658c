import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { call, get } from '../../api/client';
import type { Schema } from '../../api/operations';
import { queryClient } from '../../api/session';
import { formatBytes } from '../../parts/bytes';
import { ChangeDialog } from '../../parts/change-dialog';
import { useForm } from '../../parts/form';
import { Loaded } from '../../parts/loaded';
import { COUNT } from '../../parts/numbers';
import { Panel } from '../../parts/panel';
import { Table } from '../../parts/table';

const LIMITS = '/ops/tenants/{tenant_id}/limits';
const EVERY_MS = 5000;

const KINDS = {
  live_reservations: 'Live holds',
  budgets: 'Budgets',
  webhooks: 'Subscriptions',
  api_keys: 'API keys',
  policies: 'Policies',
  stored_bytes: 'Stored',
} as const;
type Kind = keyof typeof KINDS;
const NAMES = Object.keys(KINDS) as readonly Kind[];
type Limits = Readonly<Record<Kind, Schema<'TenantLimitState'>>>;

const shown = (kind: Kind, count: number): string =>
  kind === 'stored_bytes' ? formatBytes(count) : COUNT.format(count);

/** What a tenant owns and may own. */
export function Owned({ id, mayChange }: { id: string; mayChange: boolean }): ReactNode {
  const [isChanging, setChanging] = useState(false);
  const limits = useQuery({
    queryKey: [LIMITS, id],
    queryFn: () => get(LIMITS, { tenant_id: id }),
    refetchInterval: EVERY_MS,
  });
  const read = limits.data?.limits as Limits | undefined;
  return (
    <Panel
      title="What it owns"
      className="span-6"
      flush
      aside={
        mayChange &&
        read !== undefined && (
          <Button size="compact-xs" variant="default" onClick={() => setChanging(true)}>
            Change the limits
          </Button>
        )
      }
    >
      <Loaded query={limits} height={240}>
        {({ limits: owned }) => (
          <Table label="What it owns" columns={['Kind', { right: 'Now' }, { right: 'Limit' }]} items={NAMES}>
            {(kind) => <LimitRow key={kind} id={id} kind={kind} state={(owned as Limits)[kind]} />}
          </Table>
        )}
      </Loaded>
      {isChanging && read !== undefined && (
        <ChangeLimits id={id} limits={read} close={() => setChanging(false)} />
      )}
    </Panel>
  );
}

function LimitRow({ id, kind, state }: { id: string; kind: Kind; state: Limits[Kind] }): ReactNode {
  const { used, limit, source } = state;
  return (
    <tr>
      <td>
        <KindLink id={id} kind={kind} />
      </td>
      <td className="right num">{shown(kind, used)}</td>
      <td className="right num">
        {limit === 0 ? <span className="muted">none</span> : shown(kind, limit)}
        {source === 'tenant' && <span className="muted small"> its own</span>}
      </td>
    </tr>
  );
}

function KindLink({ id, kind }: { id: string; kind: Kind }): ReactNode {
  switch (kind) {
    case 'live_reservations':
      return (
        <Link to="/reservations" search={{ tenant: id, status: 'ACTIVE' }}>
          {KINDS[kind]}
        </Link>
      );
    case 'budgets':
      return (
        <Link to="/budgets" search={{ tenant_id: id }}>
          {KINDS[kind]}
        </Link>
      );
    case 'webhooks':
      return (
        <Link to="/webhooks" search={{ tenant_id: id }}>
          {KINDS[kind]}
        </Link>
      );
    default:
      return KINDS[kind];
  }
}

function ChangeLimits({ id, limits, close }: { id: string; limits: Limits; close: () => void }): ReactNode {
  const of = <Value,>(read: (kind: Kind) => Value): Record<Kind, Value> =>
    Object.fromEntries(NAMES.map((kind) => [kind, read(kind)])) as Record<Kind, Value>;
  const form = useForm(
    of((kind) => ({
      label: kind === 'stored_bytes' ? 'Stored bytes' : KINDS[kind],
      kind: 'number' as const,
      description:
        limits[kind].source === 'tenant'
          ? 'Empty: the limit of the deployment'
          : `Empty: the limit of the deployment, ${limits[kind].limit === 0 ? 'none' : shown(kind, limits[kind].limit)}`,
    })),
    of((kind) => (limits[kind].source === 'tenant' ? String(limits[kind].limit) : '')),
  );
  const change = async (): Promise<void> => {
    await call(
      'put',
      LIMITS,
      { tenant_id: id },
      of((kind) => form.count(kind)),
    );
    await queryClient.invalidateQueries({ queryKey: [LIMITS, id] });
  };
  return (
    <ChangeDialog
      title={`Change the limits of ${id}`}
      action="Change the limits"
      change={change}
      close={close}
      blocked={form.problem ?? (form.differences.length === 0 ? 'Nothing changes yet' : undefined)}
      differences={form.differences}
    >
      <p>0 is no limit. What is there already stays.</p>
      {form.inputs}
    </ChangeDialog>
  );
}
