import { Button, TextInput } from '@mantine/core';
import type { ReactNode } from 'react';
import type { Int64 } from '../../api/json';
import type { Schema } from '../../api/operations';
import type { Unit } from '../../api/types';
import { amountOf, amountProblem, formatAmount, parseAmount } from '../../parts/amount';
import type { Difference } from '../../parts/change-dialog';
import { CalendarFields } from './calendar-fields';
import { type Calendar, calendarOf, type Every, EVERY, newCalendar, requestOf, wordsOf } from './recurrence';

/** A window as it is set, also by a template. */
type WindowRule = NonNullable<Schema<'BudgetTemplate'>['windows']>[number];

const MOST = 4;
const NAME = /^[a-z0-9][a-z0-9_-]{0,31}$/;

/** A window as it is typed. */
export interface Draft {
  readonly name: string;
  readonly limit: string;
  readonly calendar: Calendar;
}

export const draftOf = ({ name, limit, ...recurrence }: WindowRule): Draft => ({
  name,
  limit: formatAmount(limit.amount, limit.unit),
  calendar: calendarOf(recurrence) ?? newCalendar<Every>('day'),
});

/** What the API takes. */
export function windowsOf(drafts: readonly Draft[], unit: Unit) {
  return drafts.map(({ name, limit, calendar }) => ({
    name,
    limit: { unit, amount: amountOf(limit, unit) },
    ...requestOf(calendar),
  }));
}

/** Why the drafts cannot be sent, or undefined. */
export function missingIn(drafts: readonly Draft[], unit: string): string | undefined {
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
export function differencesOf(
  windows: readonly WindowRule[],
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

/** The windows of a form: fields for each, and a button for another one. */
export function WindowDrafts({
  drafts,
  setDrafts,
}: {
  drafts: readonly Draft[];
  setDrafts: (drafts: readonly Draft[]) => void;
}): ReactNode {
  return (
    <>
      {drafts.map((draft, index) => (
        <WindowFields
          key={index}
          title={`Window ${index + 1}`}
          draft={draft}
          set={(part) => setDrafts(drafts.map((one, place) => (place === index ? { ...one, ...part } : one)))}
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
    </>
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
