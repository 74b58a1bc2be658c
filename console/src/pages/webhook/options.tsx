import { useQuery, type UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { call, get } from '../../api/client';
import type { Schema } from '../../api/operations';
import { queryClient } from '../../api/session';
import type { Unit, Webhook } from '../../api/types';
import { SYSTEM_OWNER, WEBHOOKS } from '../../api/webhooks';
import { formatAmount, parseAmount, unitWord, UNITS } from '../../parts/amount';
import { ChangeDialog } from '../../parts/change-dialog';
import { type Field, useForm } from '../../parts/form';

export type Options = Schema<'WebhookOptions'>;
type Amount = Options['used_amounts'][number];
type Name = 'unit' | 'kind' | 'state' | 'amounts' | 'once' | 'group' | 'gone';

const OPTIONS = '/ops/webhooks/{subscription_id}/options';

const EVERY_MS = 30_000;

/** What a subscription has beyond the protocol. */
export function useOptions({ subscription_id: id }: Webhook): UseQueryResult<Options> {
  return useQuery({
    queryKey: [WEBHOOKS, id, OPTIONS],
    queryFn: () => get(OPTIONS, { subscription_id: id }),
    refetchInterval: EVERY_MS,
  });
}

export const amountWords = ({ unit, amount }: Amount): string =>
  unit === 'USD_MICROCENTS' ? formatAmount(amount, unit) : `${formatAmount(amount, unit)} ${unitWord(unit)}`;

/** What a payload must equal, in words. */
export const filterWords = ({ unit, action_kind: kind, state }: Options['payload_filter']): string[] => [
  ...(unit === undefined ? [] : [`unit: ${unitWord(unit)}`]),
  ...(kind === undefined ? [] : [`kind of action: ${kind}`]),
  ...(state === undefined ? [] : [`state: ${state}`]),
];

/** Amounts as `amountWords` writes them, one a line; undefined if a line is none. */
function amountsOf(text: string): { unit: Unit; amount: number }[] | undefined {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  const found = lines.map((line) => {
    const unit = line.trim().startsWith('$')
      ? 'USD_MICROCENTS'
      : UNITS.find((one) =>
          line
            .trimEnd()
            .toLowerCase()
            .endsWith(` ${unitWord(one)}`),
        );
    const amount = parseAmount(line.replace(/[a-z ]+$/i, ''), unit ?? '');
    // Beyond what a double holds, the API refuses it anyway.
    return unit === undefined || amount === undefined ? undefined : { unit, amount: Number(amount) };
  });
  return found.every((one) => one !== undefined) ? found : undefined;
}

const fieldsOf = ({ tenant_id: owner }: Webhook): Readonly<Record<Name, Field>> => ({
  unit: {
    label: 'Only with the unit',
    choices: { '': 'Any', ...Object.fromEntries(UNITS.map((unit) => [unit, unitWord(unit)])) },
  },
  kind: {
    label: 'Only with the kind of action',
    description: 'Such as llm.completion. Empty: any. An event without a kind is not sent then',
  },
  state: {
    label: 'Only with the state',
    description: 'What the event leads to, such as FROZEN. Empty: any. An event without one is not sent then',
  },
  amounts: {
    label: 'Thresholds as amounts',
    description:
      owner === SYSTEM_OWNER
        ? 'Only for subscriptions of a tenant'
        : `When budget.threshold_crossed is sent. One a line, such as ${amountWords({ unit: 'TOKENS', amount: 50_000 })} or ${amountWords(
            { unit: 'USD_MICROCENTS', amount: 1_250_000_000 },
          )}`,
    kind: 'lines',
    disabled: owner === SYSTEM_OWNER,
  },
  once: {
    label: 'Thresholds of budgets',
    choices: { '': 'each time they are crossed', once: 'only the first time in a period' },
  },
  group: {
    label: 'Events per request',
    kind: 'number',
    description:
      'From 1 to 100. With more than 1, the body is {"events":[…]}, and the answer counts for each event',
  },
  gone: {
    label: 'If the endpoint answers 410 Gone',
    choices: { '': 'it is a failure as any other', end: 'the subscription ends at once' },
  },
});

/** Changes what a subscription has beyond the protocol. */
export function OptionsForm({
  webhook,
  options,
  close,
}: {
  webhook: Webhook;
  options: Options;
  close: () => void;
}): ReactNode {
  const { unit = '', action_kind: kind = '', state = '' } = options.payload_filter;
  const amounts = options.used_amounts.map(amountWords).join('\n');
  const form = useForm(fieldsOf(webhook), {
    unit,
    kind,
    state,
    amounts,
    once: options.thresholds_once_a_period ? 'once' : '',
    group: `${options.events_per_request}`,
    gone: options.end_on_gone ? 'end' : '',
  });
  const { values } = form;
  const usedAmounts = amountsOf(values.amounts);
  const change = async (): Promise<void> => {
    await call(
      'put',
      OPTIONS,
      { subscription_id: webhook.subscription_id },
      {
        end_on_gone: values.gone === 'end',
        events_per_request: form.count('group'),
        thresholds_once_a_period: values.once === 'once',
        payload_filter: {
          unit: (values.unit || undefined) as Unit | undefined,
          action_kind: values.kind || undefined,
          state: values.state || undefined,
        },
        used_amounts: usedAmounts,
      },
    );
    await queryClient.invalidateQueries({ queryKey: [WEBHOOKS] });
  };
  return (
    <ChangeDialog
      title="Change the options"
      action="Change the options"
      change={change}
      close={close}
      blocked={
        usedAmounts === undefined
          ? `An amount has a unit, such as ${amountWords({ unit: 'TOKENS', amount: 500 })}`
          : form.differences.length === 0
            ? 'Nothing changes yet'
            : form.problem
      }
      differences={form.differences}
    >
      {form.inputs}
    </ChangeDialog>
  );
}
