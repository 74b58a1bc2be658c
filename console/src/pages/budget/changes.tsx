import { NativeSelect, TextInput } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import { call, newIdempotencyKey } from '../../api/client';
import type { Body } from '../../api/operations';
import { queryClient } from '../../api/session';
import type { Budget } from '../../api/types';
import { amountOf, amountProblem, formatAmount, parseAmount } from '../../parts/amount';
import { ChangeDialog, type Difference } from '../../parts/change-dialog';

const refresh = (): Promise<void> => queryClient.invalidateQueries({ queryKey: ['/v1/admin/budgets'] });
const MAX_REASON = 512;

type Operation = Body<'post', '/v1/admin/budgets/fund'>['operation'];
const OPERATIONS: Readonly<Record<Operation, string>> = {
  CREDIT: 'Credit: allocate more',
  DEBIT: 'Debit: allocate less',
  RESET: 'Reset: allocate exactly',
  RESET_SPENT: 'New period: allocate exactly, spent starts at 0',
  REPAY_DEBT: 'Repay debt',
};

export function Reason({ value, onChange }: { value: string; onChange: (value: string) => void }): ReactNode {
  return (
    <TextInput
      label="Reason"
      description="For the audit log"
      value={value}
      maxLength={MAX_REASON}
      onChange={(event) => onChange(event.currentTarget.value)}
    />
  );
}

/** What funding will do to the figures. A credit repays debt first. */
function afterFunding(budget: Budget, operation: Operation, amount: bigint): Difference[] {
  const { unit } = budget;
  const [allocated, spent, held, debt] = [
    BigInt(budget.allocated.amount),
    BigInt(budget.spent.amount),
    BigInt(budget.reserved.amount),
    BigInt(budget.debt.amount),
  ];
  const show = (figure: bigint): string => formatAmount(figure, unit);
  const row = (label: string, before: bigint, after: bigint): Difference => ({
    label,
    before: show(before),
    after: show(after),
  });
  const least = (one: bigint, other: bigint): bigint => (one < other ? one : other);
  switch (operation) {
    case 'CREDIT':
      return [
        row('Allocated', allocated, allocated + amount),
        ...(debt > 0n ? [row('Debt', debt, debt - least(debt, amount))] : []),
      ];
    case 'DEBIT':
      return [row('Allocated', allocated, allocated - amount)];
    case 'REPAY_DEBT':
      return [row('Debt', debt, debt - least(debt, amount))];
    case 'RESET_SPENT':
      return [row('Allocated', allocated, amount), row('Spent', spent, 0n), row('Held', held, held)];
    default:
      return [row('Allocated', allocated, amount)];
  }
}

export function Fund({ budget, close }: { budget: Budget; close: () => void }): ReactNode {
  const { scope, unit, tenant_id: tenantId } = budget;
  const [operation, setOperation] = useState<Operation>('CREDIT');
  const [text, setText] = useState('');
  const [reason, setReason] = useState('');
  // One key for this dialog: a second attempt after a lost answer does not fund twice.
  const [key] = useState(newIdempotencyKey);
  const amount = parseAmount(text, unit);
  const fund = async (): Promise<void> => {
    await call(
      'post',
      '/v1/admin/budgets/fund',
      { tenant_id: tenantId, scope, unit },
      {
        operation,
        amount: { unit, amount: amountOf(text, unit) },
        idempotency_key: `${key}-${operation}-${String(amount)}`,
        ...(reason === '' ? {} : { reason }),
      },
    );
    await refresh();
  };
  return (
    <ChangeDialog
      title="Fund or reset the budget"
      action="Change the budget"
      change={fund}
      close={close}
      blocked={amountProblem(text, unit)}
      differences={amount === undefined ? [] : afterFunding(budget, operation, amount)}
    >
      <NativeSelect
        label="Operation"
        data={Object.entries(OPERATIONS).map(([value, label]) => ({ value, label }))}
        value={operation}
        onChange={(event) => setOperation(event.currentTarget.value as Operation)}
      />
      <TextInput
        label="Amount"
        inputMode="decimal"
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        data-autofocus
      />
      <Reason value={reason} onChange={setReason} />
    </ChangeDialog>
  );
}

export function Freeze({ budget, close }: { budget: Budget; close: () => void }): ReactNode {
  const { scope, unit, status } = budget;
  const [reason, setReason] = useState('');
  const isFrozen = status === 'FROZEN';
  const change = async (): Promise<void> => {
    const verb = isFrozen ? 'unfreeze' : 'freeze';
    await call('post', `/v1/admin/budgets/${verb}`, { scope, unit }, reason === '' ? {} : { reason });
    await refresh();
  };
  return (
    <ChangeDialog
      title={isFrozen ? 'Unfreeze the budget' : 'Freeze the budget'}
      action={isFrozen ? 'Unfreeze' : 'Freeze'}
      danger={!isFrozen}
      change={change}
      close={close}
      differences={[
        { label: 'Status', before: isFrozen ? 'Frozen' : 'Active', after: isFrozen ? 'Active' : 'Frozen' },
      ]}
    >
      <p>
        {isFrozen
          ? 'Reservations that this scope takes part in are decided again.'
          : 'New reservations that this scope takes part in will be refused. Live holds can still be settled.'}
      </p>
      <Reason value={reason} onChange={setReason} />
    </ChangeDialog>
  );
}

export function OverdraftLimit({ budget, close }: { budget: Budget; close: () => void }): ReactNode {
  const { scope, unit } = budget;
  const [text, setText] = useState('');
  const limit = parseAmount(text, unit);
  const change = async (): Promise<void> => {
    await call(
      'patch',
      '/v1/admin/budgets',
      { scope, unit },
      {
        overdraft_limit: { unit, amount: amountOf(text, unit) },
      },
    );
    await refresh();
  };
  return (
    <ChangeDialog
      title="Change the overdraft limit"
      action="Change the limit"
      change={change}
      close={close}
      blocked={amountProblem(text, unit)}
      differences={
        limit === undefined
          ? []
          : [
              {
                label: 'Overdraft limit',
                before: formatAmount(budget.overdraft_limit.amount, unit),
                after: formatAmount(limit, unit),
              },
            ]
      }
    >
      <TextInput
        label="Overdraft limit"
        inputMode="decimal"
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        data-autofocus
      />
    </ChangeDialog>
  );
}
