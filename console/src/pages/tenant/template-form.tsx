import { NativeSelect } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { call, get, newIdempotencyKey } from '../../api/client';
import type { Body, Schema } from '../../api/operations';
import { queryClient } from '../../api/session';
import type { Unit } from '../../api/types';
import { amountOf, amountProblem, formatAmount, unitWord, UNITS } from '../../parts/amount';
import { ChangeDialog, type Difference } from '../../parts/change-dialog';
import { type Field, useForm } from '../../parts/form';
import { Scope } from '../../parts/scope';
import { wordOf } from '../../parts/status';
import { CalendarFields } from '../budget/calendar-fields';
import {
  type Calendar,
  calendarOf,
  newCalendar,
  type Period,
  PERIODS,
  requestOf,
  wordsOf,
} from '../budget/recurrence';
import {
  differencesOf,
  type Draft,
  draftOf,
  missingIn,
  WindowDrafts,
  windowsOf,
} from '../budget/window-drafts';
import { OVERAGES } from './policy-form';
import { matchedBy, type Seen, seenScopes } from './template-scopes';

export const TEMPLATES = '/ops/budget-templates';
export const TEMPLATE = `${TEMPLATES}/{template_id}` as const;

type Template = Schema<'BudgetTemplate'>;
type Name = 'id' | 'pattern' | 'unit' | 'allocated' | 'overdraft' | 'overage' | 'rollover' | 'existing';

const fieldsOf = (template: Template | undefined): Readonly<Record<Name, Field>> => ({
  id: { label: 'Id', description: 'Names the template', disabled: template !== undefined },
  pattern: {
    label: 'Scopes',
    description: 'A scope, whose last segments may have * in place of a value',
    disabled: template !== undefined,
  },
  unit: {
    label: 'Unit',
    choices: Object.fromEntries(UNITS.map((unit) => [unit, unitWord(unit)])),
    disabled: template !== undefined,
  },
  allocated: { label: 'Allocated', description: 'To each budget that it makes' },
  overdraft: { label: 'Overdraft limit', description: 'Empty: none' },
  overage: {
    label: 'If a commit costs more',
    choices: { '': 'As the tenant says', ...Object.fromEntries(OVERAGES.map((one) => [one, wordOf(one)])) },
  },
  rollover: {
    label: 'What is not spent at the end of a period',
    choices: {
      NONE: 'is lost',
      CARRY_FORWARD: 'is carried over',
      CAP_AT_ALLOCATED: 'tops up to what is allocated',
    },
  },
  existing: {
    label: 'Budgets that it has made',
    choices: { '': 'stay as they are', all: 'get what it sets, too' },
    disabled: template === undefined,
  },
});

const MONTHLY: Period = 'month';

/** Creates a template, or changes one, with the scopes that it would make budgets for. */
export function TemplateForm({
  tenantId,
  template,
  close,
}: {
  tenantId: string;
  template?: Template | undefined;
  close: () => void;
}): ReactNode {
  const amountText = (amount: Template['allocated'] | undefined): string =>
    amount === undefined || BigInt(amount.amount) === 0n ? '' : formatAmount(amount.amount, amount.unit);
  const form = useForm(fieldsOf(template), {
    id: template?.template_id ?? '',
    pattern: template?.scope_pattern ?? `tenant:${tenantId}/agent:*`,
    unit: template?.unit ?? 'USD_MICROCENTS',
    allocated: amountText(template?.allocated),
    overdraft: amountText(template?.overdraft_limit),
    overage: template?.commit_overage_policy ?? '',
    rollover: template?.rollover_policy ?? 'NONE',
    existing: '',
  });
  const [before] = useState(() => template?.recurrence && calendarOf<Period>(template.recurrence));
  const [calendar, setCalendar] = useState<Calendar<Period> | undefined>(before);
  const { windows = [] } = template ?? {};
  const [drafts, setDrafts] = useState<readonly Draft[]>(() => windows.map(draftOf));
  const [key] = useState(newIdempotencyKey);
  const { values } = form;
  const unit = values.unit as Unit;
  const change = async (): Promise<void> => {
    const amount = (text: string): Template['allocated'] => ({ unit, amount: amountOf(text, unit) });
    const body: Body<'put', typeof TEMPLATE> = {
      tenant_id: tenantId,
      scope_pattern: values.pattern,
      unit,
      allocated: amount(values.allocated),
      overdraft_limit: values.overdraft === '' ? undefined : amount(values.overdraft),
      commit_overage_policy: (values.overage || undefined) as Template['commit_overage_policy'],
      rollover_policy: values.rollover as Template['rollover_policy'],
      recurrence: calendar && requestOf(calendar),
      windows: drafts.length === 0 ? undefined : windowsOf(drafts, unit),
      // What the form does not show stays.
      period_ms: calendar === undefined ? template?.period_ms : undefined,
      credits: template?.credits,
      metadata: template?.metadata,
      ...(values.existing === '' ? {} : { apply_to_existing: true, idempotency_key: key }),
    };
    await call('put', TEMPLATE, { template_id: values.id }, body);
    await Promise.all(
      [TEMPLATES, '/v1/admin/budgets'].map((path) => queryClient.invalidateQueries({ queryKey: [path] })),
    );
  };
  const words = (one: Calendar | undefined): string => (one === undefined ? 'none' : wordsOf(one));
  const missing = missingIn(drafts, unit);
  const differences: Difference[] = [
    ...form.differences,
    ...(words(before) === words(calendar)
      ? []
      : [{ label: 'Periods', before: words(before), after: words(calendar) }]),
    ...(missing === undefined ? differencesOf(windows, drafts, unit) : []).map(({ label, ...rest }) => ({
      label: `Window ${label}`,
      ...rest,
    })),
  ];
  const blocked =
    values.id === ''
      ? 'An id is missing'
      : (amountProblem(values.allocated, unit) ??
        (values.overdraft === '' ? undefined : amountProblem(values.overdraft, unit, 'An overdraft limit')) ??
        missing ??
        (template !== undefined && differences.length === 0 ? 'Nothing changes yet' : undefined));
  return (
    <ChangeDialog
      title={
        template === undefined ? `Create a budget template for ${tenantId}` : `Change ${template.template_id}`
      }
      action={template === undefined ? 'Create template' : 'Change the template'}
      change={change}
      close={close}
      blocked={blocked}
      differences={template === undefined ? [] : differences}
    >
      {form.input('id')}
      {form.input('pattern')}
      <Matches tenantId={tenantId} pattern={values.pattern} unit={unit} />
      {(['unit', 'allocated', 'overdraft', 'overage'] as const).map(form.input)}
      <NativeSelect
        label="Periods"
        data={[
          { value: '', label: template?.period_ms === undefined ? 'None' : 'As before: of one length' },
          { value: 'calendar', label: 'By the calendar' },
        ]}
        value={calendar === undefined ? '' : 'calendar'}
        onChange={({ currentTarget: { value } }) =>
          setCalendar(value === '' ? undefined : newCalendar(MONTHLY))
        }
      />
      {calendar !== undefined && (
        <div className="fields-grid">
          <CalendarFields
            calendar={calendar}
            choices={PERIODS}
            onChange={(part) => setCalendar({ ...calendar, ...part })}
          />
        </div>
      )}
      {form.input('rollover')}
      <WindowDrafts drafts={drafts} setDrafts={setDrafts} />
      {template !== undefined && form.input('existing')}
    </ChangeDialog>
  );
}

const SHOWN = 6;

/** Which scopes that are known match a pattern: those with a budget in the unit keep it, the others get one by their next request. */
function Matches({
  tenantId,
  pattern,
  unit,
}: {
  tenantId: string;
  pattern: string;
  unit: string;
}): ReactNode {
  const { data } = useQuery({
    queryKey: [TEMPLATES, 'seen', tenantId],
    queryFn: () => seenScopes(tenantId, get),
  });
  if (data === undefined) {
    return <p className="muted small">Looking for scopes that match</p>;
  }
  const matching = matchedBy(pattern, data);
  const without = matching.filter(({ units }) => !units.has(unit));
  return (
    <div className="notice small" role="status">
      {matching.length === 0
        ? 'No scope of the first 100 budgets and the last 100 reservations matches. The template makes a budget for each new one that does.'
        : `${matching.length} scopes that are known match: ${without.length} without a budget in ${unitWord(unit)} get one, ${
            matching.length - without.length
          } keep theirs.`}
      {[...without, ...matching.filter((one) => !without.includes(one))].slice(0, SHOWN).map((one) => (
        <MatchRow key={one.scope} seen={one} unit={unit} />
      ))}
      {matching.length > SHOWN && <div className="muted">and {matching.length - SHOWN} more</div>}
    </div>
  );
}

function MatchRow({ seen: { scope, units }, unit }: { seen: Seen; unit: string }): ReactNode {
  return (
    <div>
      <Scope path={scope} /> <span className="muted">{units.has(unit) ? 'has a budget' : 'gets one'}</span>
    </div>
  );
}
