import { TextInput } from '@mantine/core';
import { type ReactNode, useMemo, useState } from 'react';
import { call, newIdempotencyKey } from '../../api/client';
import { queryClient } from '../../api/session';
import type { Budget, Credit } from '../../api/types';
import { amountOf, amountProblem, formatAmount, parseAmount } from '../../parts/amount';
import { ChangeDialog } from '../../parts/change-dialog';
import { type Field, useForm } from '../../parts/form';
import { Reason } from './changes';

export const CREDITS = '/ops/budgets/credits';
const MOST_PRIORITY = 100;

async function refresh(): Promise<void> {
  await Promise.all(
    [CREDITS, '/v1/admin/budgets'].map((path) => queryClient.invalidateQueries({ queryKey: [path] })),
  );
}

const END: Field = { label: 'Ends', kind: 'time', description: 'Empty for a credit that does not end' };
const FIELDS = {
  name: { label: 'Name', kind: 'text' },
  category: { label: 'Category', kind: 'text', description: 'Such as promotion or prepaid; may be empty' },
  priority: { label: 'Priority', kind: 'number', description: '0 burns first, 100 last' },
  expires_at: END,
} as const satisfies Record<string, Field>;

export function GrantCredit({ budget, close }: { budget: Budget; close: () => void }): ReactNode {
  const { scope, unit, tenant_id: tenantId } = budget;
  const [text, setText] = useState('');
  const form = useForm(FIELDS, { name: '', category: '', priority: '50', expires_at: '' });
  const { name, category, priority, expires_at: ends } = form.values;
  const amount = parseAmount(text, unit);
  // One key for each request: a second attempt after a lost answer does not grant twice.
  const key = useMemo(newIdempotencyKey, [text, name, category, priority, ends]);
  const grant = async (): Promise<void> => {
    const body = {
      ...{ tenant_id: tenantId, scope, unit, name, priority: Number(priority), idempotency_key: key },
      amount: { unit, amount: amountOf(text, unit) },
      ...(category !== '' && { category }),
      ...(ends !== '' && { expires_at: ends }),
    };
    await call('post', CREDITS, {}, body);
    await refresh();
  };
  const isPriority = /^\d+$/.test(priority) && Number(priority) <= MOST_PRIORITY;
  const [allocated, debt] = [BigInt(budget.allocated.amount), BigInt(budget.debt.amount)];
  return (
    <ChangeDialog
      title="Grant a credit"
      action="Grant the credit"
      change={grant}
      close={close}
      blocked={
        amountProblem(text, unit) ??
        (name.trim() === '' ? 'A name is missing' : isPriority ? undefined : 'A priority is 0 to 100')
      }
      differences={
        amount === undefined
          ? []
          : [
              {
                label: 'Allocated',
                before: formatAmount(allocated, unit),
                after: formatAmount(allocated + amount, unit),
              },
            ]
      }
    >
      <TextInput
        label="Amount"
        inputMode="decimal"
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        data-autofocus
      />
      {form.inputs}
      <p className="muted small">
        It burns before the budget’s own allocation{debt > 0n ? ', and repays debt first' : ''}. What live
        holds may need at its end stays until they end.
      </p>
    </ChangeDialog>
  );
}

export function MoveEnd({ credit, close }: { credit: Credit; close: () => void }): ReactNode {
  const { credit_id: id, name, expires_at: before = '' } = credit;
  const form = useForm({ expires_at: END }, { expires_at: before });
  const after = form.values.expires_at;
  const move = async (): Promise<void> => {
    await call(
      'patch',
      `${CREDITS}/{credit_id}`,
      { credit_id: id },
      { expires_at: after === '' ? null : after },
    );
    await refresh();
  };
  return (
    <ChangeDialog
      title={`Move the end of ${name}`}
      action="Move the end"
      change={move}
      close={close}
      blocked={form.differences.length === 0 ? 'Nothing changes yet' : undefined}
      differences={form.differences}
    >
      {form.inputs}
    </ChangeDialog>
  );
}

export function VoidCredit({
  budget: { unit },
  credit,
  close,
}: {
  budget: Budget;
  credit: Credit;
  close: () => void;
}): ReactNode {
  const { credit_id: id, name, remaining } = credit;
  const [reason, setReason] = useState('');
  const end = async (): Promise<void> => {
    await call('post', `${CREDITS}/{credit_id}/void`, { credit_id: id }, reason === '' ? {} : { reason });
    await refresh();
  };
  return (
    <ChangeDialog
      title={`Void ${name}`}
      action="Void the credit"
      danger
      change={end}
      close={close}
      differences={[
        { label: 'Left', before: formatAmount(remaining.amount, unit), after: formatAmount(0n, unit) },
      ]}
    >
      <p>Live holds keep what they may need of it; the rest leaves the allocation now.</p>
      <Reason value={reason} onChange={setReason} />
    </ChangeDialog>
  );
}
