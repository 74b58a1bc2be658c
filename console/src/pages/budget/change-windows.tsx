import { Button, TextInput } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import { call } from '../../api/client';
import type { Int64 } from '../../api/json';
import { queryClient } from '../../api/session';
import type { Budget } from '../../api/types';
import { amountOf, amountProblem, formatAmount, parseAmount } from '../../parts/amount';
import { ChangeDialog, type Difference } from '../../parts/change-dialog';
import { CalendarFields } from './calendar-fields';
import {
  type BudgetWindow,
  type Calendar,
  calendarOf,
  type Every,
  EVERY,
  newCalendar,
  requestOf,
  WINDOWS,
  wordsOf,
} from './recurrence';

const MOST = 4;
const NAME = /^[a-z0-9][a-z0-9_-]{0,31}$/;

/** A window as it is typed. */
interface Draft {
  readonly name: string;
  readonly limit: string;
  readonly calendar: Calendar;
}

const draftOf = ({ name, limit, ...recurrence }: BudgetWindow): Draft => ({
  name,
  limit: formatAmount(limit.amount, limit.unit),
  calendar: calendarOf(recurrence) ?? newCalendar<Every>('day'),
});

async function change({ scope, unit }: Budget, drafts: readonly Draft[]): Promise<void> {
  const windows = drafts.map(({ name, limit, calendar }) => ({
    name,
    limit: { unit, amount: amountOf(limit, unit) },
    ...requestOf(calendar),
  }));
  await (windows.length === 0
    ? call('delete', WINDOWS, { scope, unit })
    : call('put', WINDOWS, { scope, unit }, { windows }));
  await Promise.all(
    [WINDOWS, '/v1/admin/budgets'].map((path) => queryClient.invalidateQueries({ queryKey: [path] })),
  );
}

/** Why the drafts cannot be sent, or undefined. */
function missingIn(drafts: readonly Draft[], unit: string): string | undefined {
  const names = drafts.map(({ name }) => name);
  if (names.some((name) => !NAME.test(name))) {
    return 'A name of lower-case letters, digits, - and _ is missing';
  }
  if (new Set(names).size < names.length) {
    return 'Two windows have one name';
  }
  return drafts
    .map(({ limit }) => amountProblem(limit, unit, 'A limit'))
    .find((problem) => problem !== undefined);
}

/** By name, because a window whose name stays goes on. */
function differencesOf(
  windows: readonly BudgetWindow[],
  drafts: readonly Draft[],
  unit: string,
): Difference[] {
  const words = (amount: Int64, calendar: Calendar | undefined): string =>
    `${formatAmount(amount, unit)} ${calendar === undefined ? 'by a calendar not known any more' : wordsOf(calendar)}`;
  // Not by way of a draft: it replaces a calendar that is not known, which must show.
  const before = new Map(
    windows.map(({ name, limit, ...recurrence }) => [name, words(limit.amount, calendarOf(recurrence))]),
  );
  const after = new Map(
    drafts.map(({ name, limit, calendar }) => [name, words(parseAmount(limit, unit) ?? 0n, calendar)]),
  );
  return [...new Set([...before.keys(), ...after.keys()])]
    .filter((name) => before.get(name) !== after.get(name))
    .map((name) => ({ label: name, before: before.get(name) ?? 'none', after: after.get(name) ?? 'none' }));
}

export function ChangeWindows({
  budget,
  windows,
  close,
}: {
  budget: Budget;
  windows: readonly BudgetWindow[];
  close: () => void;
}): ReactNode {
  const { unit } = budget;
  const [drafts, setDrafts] = useState(() => windows.map(draftOf));
  const set = (index: number, part: Partial<Draft>): void =>
    setDrafts(drafts.map((draft, place) => (place === index ? { ...draft, ...part } : draft)));
  const missing = missingIn(drafts, unit);
  const differences = missing === undefined ? differencesOf(windows, drafts, unit) : [];
  return (
    <ChangeDialog
      title="Change the windows of the budget"
      action="Change the windows"
      danger={drafts.length === 0}
      change={() => change(budget, drafts)}
      close={close}
      blocked={missing ?? (differences.length === 0 ? 'Nothing changes yet' : undefined)}
      differences={differences}
    >
      {drafts.map((draft, index) => (
        <WindowFields
          key={index}
          title={`Window ${index + 1}`}
          draft={draft}
          set={(part) => set(index, part)}
          remove={() => setDrafts(drafts.filter((_, place) => place !== index))}
        />
      ))}
      {drafts.length < MOST && (
        <div>
          <Button
            size="compact-sm"
            variant="default"
            onClick={() =>
              setDrafts([...drafts, { name: '', limit: '', calendar: newCalendar<Every>('day') }])
            }
          >
            Add window
          </Button>
        </div>
      )}
      <p className="muted small">
        A window whose name stays keeps what is spent in it. A new one begins now, with nothing spent.
      </p>
    </ChangeDialog>
  );
}

function WindowFields({
  title,
  draft: { name, limit, calendar },
  set,
  remove,
}: {
  title: string;
  draft: Draft;
  set: (part: Partial<Draft>) => void;
  remove: () => void;
}): ReactNode {
  return (
    <fieldset className="stack fields">
      <legend>{title}</legend>
      <div className="fields-grid">
        <TextInput
          label="Name"
          value={name}
          onChange={({ currentTarget: { value } }) => set({ name: value.trim() })}
        />
        <TextInput
          label="Limit"
          inputMode="decimal"
          value={limit}
          onChange={({ currentTarget: { value } }) => set({ limit: value })}
        />
        <CalendarFields
          calendar={calendar}
          choices={EVERY}
          onChange={(part) => set({ calendar: { ...calendar, ...part } })}
        />
      </div>
      <div>
        <Button
          size="compact-sm"
          variant="default"
          aria-label={`Remove ${title.toLowerCase()}`}
          onClick={remove}
        >
          Remove
        </Button>
      </div>
    </fieldset>
  );
}
