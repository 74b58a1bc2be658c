import { NativeSelect, TextInput } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import { call } from '../../api/client';
import { queryClient } from '../../api/session';
import type { Unit } from '../../api/types';
import { amountOf, amountProblem, formatAmount, parseAmount, unitWord, UNITS } from '../../parts/amount';
import { ChangeDialog } from '../../parts/change-dialog';

export function CreateBudget({
  tenantId,
  close,
}: {
  tenantId: string | undefined;
  close: () => void;
}): ReactNode {
  const [scope, setScope] = useState(tenantId === undefined ? 'tenant:' : `tenant:${tenantId}`);
  const [unit, setUnit] = useState<Unit>('USD_MICROCENTS');
  const [text, setText] = useState('');
  const amount = parseAmount(text, unit);
  const owner = /^tenant:([^/]+)/.exec(scope)?.[1];
  const create = async (): Promise<void> => {
    await call(
      'post',
      '/v1/admin/budgets',
      {},
      { tenant_id: owner, scope, unit, allocated: { unit, amount: amountOf(text, unit) } },
    );
    await queryClient.invalidateQueries({ queryKey: ['/v1/admin/budgets'] });
  };
  const blocked = owner === undefined ? 'A scope starts with tenant:<id>' : amountProblem(text, unit);
  return (
    <ChangeDialog
      title="Create a budget"
      action="Create budget"
      change={create}
      close={close}
      blocked={blocked}
      differences={
        amount === undefined
          ? []
          : [{ label: 'Allocated', before: 'none', after: formatAmount(amount, unit) }]
      }
    >
      <TextInput
        label="Scope"
        description="For example tenant:acme/workspace:prod/agent:bot"
        value={scope}
        onChange={(event) => setScope(event.currentTarget.value)}
        data-autofocus
      />
      <NativeSelect
        label="Unit"
        data={UNITS.map((value) => ({ value, label: unitWord(value) }))}
        value={unit}
        onChange={(event) => setUnit(event.currentTarget.value as Unit)}
      />
      <TextInput
        label="Allocated"
        inputMode="decimal"
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
      />
    </ChangeDialog>
  );
}
