import { NativeSelect, TextInput } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import { call } from '../../api/client';
import { queryClient } from '../../api/session';
import type { Budget } from '../../api/types';
import { ChangeDialog, type Difference } from '../../parts/change-dialog';
import { localText, Time } from '../../parts/time';
import { CalendarFields } from './calendar-fields';
import {
  type Calendar,
  calendarOf,
  firstBoundary,
  newCalendar,
  type Period,
  PERIODS,
  RECURRENCE,
  type Recurrence,
  requestOf,
  wordsOf,
} from './recurrence';

type Kind = 'calendar' | 'fixed' | 'none';
const KINDS: Readonly<Record<Kind, string>> = {
  calendar: 'By the calendar',
  fixed: 'Each as long as the first one',
  none: 'None: what is spent stays spent',
};
const ROLLOVERS: Readonly<Record<Budget['rollover_policy'], string>> = {
  NONE: 'Is lost',
  CARRY_FORWARD: 'Is carried over',
  CAP_AT_ALLOCATED: 'Is carried over, at most one allocation',
};

/** What the dialog asks for. */
interface Draft {
  readonly kind: Kind;
  readonly calendar: Calendar<Period>;
  /** Of a period of fixed length, in the reader's zone; empty for now, or for the current start. */
  readonly start: string;
  readonly end: string;
  readonly rollover: Budget['rollover_policy'];
}

function draftOf(budget: Budget, recurrence: Recurrence): Draft {
  const known = calendarOf(recurrence);
  return {
    kind: known === undefined && budget.period_end !== undefined ? 'fixed' : 'calendar',
    calendar: known ?? newCalendar('month'),
    start: localText(budget.period_start),
    end: known === undefined ? localText(budget.period_end) : '',
    rollover: budget.rollover_policy,
  };
}

const instantOf = (local: string): string | undefined =>
  local === '' ? undefined : new Date(local).toISOString();

async function change({ scope, unit, period_start: start }: Budget, draft: Draft): Promise<void> {
  const budget = { scope, unit };
  const rollover = { rollover_policy: draft.rollover };
  if (draft.kind === 'none') {
    await call('delete', RECURRENCE, budget);
  } else if (draft.kind === 'calendar') {
    await call('put', RECURRENCE, budget, { ...requestOf(draft.calendar), ...rollover });
  } else {
    const isNew = draft.start !== localText(start);
    await call('patch', '/ops/budgets/period', budget, {
      ...(isNew ? { period_start: instantOf(draft.start) } : {}),
      period_end: instantOf(draft.end),
      ...rollover,
    });
  }
  await queryClient.invalidateQueries({ queryKey: ['/v1/admin/budgets'] });
}

/** What the draft will do. A budget without periods has no end, and loses nothing. */
function differencesOf(budget: Budget, recurrence: Recurrence, draft: Draft): Difference[] {
  const { period_end: end, rollover_policy: rollover } = budget;
  const before = calendarOf(recurrence);
  const next = draft.kind === 'calendar' ? firstBoundary(draft.calendar) : instantOf(draft.end);
  const none = 'none';
  return [
    {
      label: 'Periods',
      before: before ? wordsOf(before) : end === undefined ? none : 'of the same length',
      after:
        draft.kind === 'calendar'
          ? wordsOf(draft.calendar)
          : draft.kind === 'none'
            ? none
            : 'of the same length',
    },
    {
      label: 'Next begins',
      before: end === undefined ? 'never' : <Time at={end} />,
      after: draft.kind === 'none' || next === undefined ? 'never' : <Time at={next} />,
    },
    {
      label: 'Not spent',
      before: end === undefined ? 'stays' : ROLLOVERS[rollover].toLowerCase(),
      after: draft.kind === 'none' ? 'stays' : ROLLOVERS[draft.rollover].toLowerCase(),
    },
  ];
}

export function ChangePeriod({
  budget,
  recurrence,
  close,
}: {
  budget: Budget;
  recurrence: Recurrence;
  close: () => void;
}): ReactNode {
  const [draft, setDraft] = useState(() => draftOf(budget, recurrence));
  const set = (part: Partial<Draft>): void => setDraft((old) => ({ ...old, ...part }));
  const isRecurring = calendarOf(recurrence) !== undefined;
  const kinds = (Object.keys(KINDS) as Kind[]).filter(
    (kind) => !(kind === 'fixed' && isRecurring) && !(kind === 'none' && budget.period_end === undefined),
  );
  const blocked = draft.kind === 'fixed' && draft.end === '' ? 'The end of the period is missing' : undefined;
  return (
    <ChangeDialog
      title="Change the period of the budget"
      action="Change the period"
      danger={draft.kind === 'none'}
      change={() => change(budget, draft)}
      close={close}
      blocked={blocked}
      differences={blocked === undefined ? differencesOf(budget, recurrence, draft) : []}
    >
      <NativeSelect
        label="Periods"
        {...(isRecurring ? { description: 'For a length of your own, end the periods first' } : {})}
        data={kinds.map((value) => ({ value, label: KINDS[value] }))}
        value={draft.kind}
        onChange={({ currentTarget: { value } }) => set({ kind: value as Kind })}
        data-autofocus
      />
      {draft.kind === 'calendar' && (
        <CalendarFields
          calendar={draft.calendar}
          choices={PERIODS}
          onChange={(part) => set({ calendar: { ...draft.calendar, ...part } })}
        />
      )}
      {draft.kind === 'fixed' && <FixedFields draft={draft} set={set} />}
      {draft.kind !== 'none' && (
        <NativeSelect
          label="What is not spent"
          data={Object.entries(ROLLOVERS).map(([value, label]) => ({ value, label }))}
          value={draft.rollover}
          onChange={({ currentTarget: { value } }) => set({ rollover: value as Budget['rollover_policy'] })}
        />
      )}
      <p className="muted small">The figures of the current period stay as they are.</p>
    </ChangeDialog>
  );
}

function FixedFields({ draft, set }: { draft: Draft; set: (part: Partial<Draft>) => void }): ReactNode {
  return (
    <>
      <TextInput
        type="datetime-local"
        step={1}
        label="Begins"
        description="In your time zone, not in the future. Empty: now"
        value={draft.start}
        onChange={({ currentTarget: { value } }) => set({ start: value })}
      />
      <TextInput
        type="datetime-local"
        step={1}
        label="Ends"
        description="Each following period is as long"
        value={draft.end}
        onChange={({ currentTarget: { value } }) => set({ end: value })}
      />
    </>
  );
}
