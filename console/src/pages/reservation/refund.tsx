import { TextInput } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import { call, newIdempotencyKey } from '../../api/client';
import { queryClient } from '../../api/session';
import { amountOf, amountProblem, formatAmount, parseAmount } from '../../parts/amount';
import { ChangeDialog } from '../../parts/change-dialog';
import { type ReservationHistory, refundableOf } from './history';

/** Takes back what a reservation was charged, all of it or a part. */
export function Refund({ history, close }: { history: ReservationHistory; close: () => void }): ReactNode {
  const { reservation_id: id, reserved } = history;
  const { unit } = reserved;
  const left = refundableOf(history);
  const [text, setText] = useState(formatAmount(left, unit));
  const [reason, setReason] = useState('');
  // One key for this dialog: a second attempt after a lost answer does not refund twice.
  const [key] = useState(newIdempotencyKey);
  const amount = parseAmount(text, unit) ?? 0n;
  const refund = async (): Promise<void> => {
    await call(
      'post',
      '/v1/reservations/{reservation_id}/refunds',
      { reservation_id: id },
      { idempotency_key: `${key}-${String(amount)}`, amount: { unit, amount: amountOf(text, unit) }, reason },
    );
    await queryClient.invalidateQueries({ queryKey: ['/ops/reservations', id] });
  };
  const problem =
    amountProblem(text, unit) ??
    (amount === 0n || amount > left
      ? `Between 1 and ${formatAmount(left, unit)} can be refunded`
      : reason === ''
        ? 'A reason is missing'
        : undefined);
  return (
    <ChangeDialog
      title="Refund the reservation"
      action="Refund"
      change={refund}
      close={close}
      blocked={problem}
      differences={[
        {
          label: 'Left of the charge',
          before: formatAmount(left, unit),
          after: formatAmount(problem === undefined ? left - amount : left, unit),
        },
      ]}
    >
      <p>
        The amount goes back to every budget that was charged: it repays debt first. Where a period or a
        window has ended since, nothing of it comes back.
      </p>
      <TextInput
        label="Amount"
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        data-autofocus
      />
      <TextInput
        label="Reason"
        description="For the audit log"
        value={reason}
        maxLength={256}
        onChange={(event) => setReason(event.currentTarget.value)}
      />
    </ChangeDialog>
  );
}
