import { TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { call } from '../../api/client';
import { queryClient } from '../../api/session';
import type { Tenant } from '../../api/types';
import { ChangeDialog } from '../../parts/change-dialog';
import { COUNT } from '../../parts/numbers';
import { Panel } from '../../parts/panel';
import { Progress } from '../../parts/progress';
import { Failure } from '../../parts/states';
import { type Open, openOf, totalOf } from './owned';

const EVERY_MS = 1000;

const PARTS: readonly (readonly [
  keyof Open & ('holds' | 'budgets' | 'keys' | 'webhooks'),
  string,
  string,
])[] = [
  ['holds', 'Live holds', 'released'],
  ['budgets', 'Budgets', 'closed'],
  ['keys', 'API keys', 'revoked'],
  ['webhooks', 'Subscriptions', 'disabled'],
];

/** Asks before a tenant is closed, with all that will end with it. */
export function CloseTenant({
  tenant: { tenant_id: id },
  started,
  close,
}: {
  tenant: Tenant;
  /** Gets how much is being closed. */
  started: (total: number) => void;
  close: () => void;
}): ReactNode {
  const [typed, setTyped] = useState('');
  const { data: open, error } = useQuery({
    queryKey: ['open', id],
    queryFn: () => openOf(id),
    staleTime: 0,
  });
  const change = async (): Promise<void> => {
    started(open === undefined ? 0 : totalOf(open));
    await call('patch', '/v1/admin/tenants/{tenant_id}', { tenant_id: id }, { status: 'CLOSED' });
    await Promise.all([
      queryClient.invalidateQueries({ queryKey: ['/v1/admin/tenants'] }),
      queryClient.invalidateQueries({ queryKey: ['open', id] }),
    ]);
  };
  const blocked =
    open === undefined ? 'Counting what it owns' : typed === id ? undefined : `Type ${id} to confirm`;
  return (
    <ChangeDialog
      title="Close the tenant"
      action="Close the tenant"
      danger
      change={change}
      close={close}
      blocked={blocked}
      differences={PARTS.map(([part, label, word]) => ({
        label,
        before: open === undefined ? '…' : `${COUNT.format(open[part])}${open.isCut ? ' or more' : ''}`,
        after: word,
      }))}
    >
      <p>
        From then on, every request of its keys is refused. What it holds returns to its budgets. The records
        stay readable. <strong>Nobody can open it again.</strong>
      </p>
      {error !== null && open === undefined && <Failure error={error} />}
      <TextInput
        label={`Id of the tenant, ${id}`}
        value={typed}
        onChange={(event) => setTyped(event.currentTarget.value)}
        autoComplete="off"
        data-autofocus
      />
    </ChangeDialog>
  );
}

/** How far a closing has come. */
export function Closing({ id, total }: { id: string; total: number | undefined }): ReactNode {
  const { data: open, error } = useQuery({
    queryKey: ['open', id],
    queryFn: () => openOf(id),
    refetchInterval: ({ state }) =>
      state.data !== undefined && totalOf(state.data) === 0 ? false : EVERY_MS,
  });
  const left = open === undefined ? undefined : totalOf(open);
  const isDone = left === 0;
  const all = Math.max(total ?? 0, left ?? 0);
  return (
    <Panel title={isDone ? 'Closed with all that it owned' : 'Closing what it owned'} className="span-12">
      {error !== null && open === undefined && <Failure error={error} />}
      {total !== undefined && total > 0 && (
        <Progress
          label="Closing"
          done={left === undefined ? 0 : all - left}
          of={all}
          unit="closed"
          isRunning={!isDone}
        />
      )}
      {open !== undefined && !isDone && (
        <p className="muted" style={{ marginTop: 8 }}>
          {PARTS.filter(([part]) => open[part] > 0)
            .map(([part, label]) => `${label}: ${COUNT.format(open[part])} left`)
            .join(', ')}
          . Holdfast goes on by itself, also when this page is closed. If nothing moves for a minute, the log
          names records that are damaged.
        </p>
      )}
      {isDone && <p className="muted">Nothing is open any more.</p>}
    </Panel>
  );
}
