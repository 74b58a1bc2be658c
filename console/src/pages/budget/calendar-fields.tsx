import { NativeSelect } from '@mantine/core';
import type { ReactNode } from 'react';
import { type Calendar, EVERY, type Every, hasMonth, MONTHS, WEEKDAYS } from './recurrence';

const MONTH_DAYS = Array.from({ length: 31 }, (_, day) => String(day + 1));

/** What a calendar is made of. */
export function CalendarFields({
  calendar: { every, zone, day, month },
  onChange,
}: {
  calendar: Calendar;
  onChange: (part: Partial<Calendar>) => void;
}): ReactNode {
  const zones = [...new Set(['UTC', zone, ...Intl.supportedValuesOf('timeZone')])];
  const days = every === 'week' ? WEEKDAYS : MONTH_DAYS;
  const numbered = (names: readonly string[]): { value: string; label: string }[] =>
    names.map((label, index) => ({ value: String(index + 1), label }));
  return (
    <>
      <NativeSelect
        label="Every"
        data={[...EVERY]}
        value={every}
        onChange={({ currentTarget: { value } }) => onChange({ every: value as Every, day: 1 })}
      />
      {every !== 'day' && (
        <NativeSelect
          label="Day"
          {...(every === 'week' ? {} : { description: 'A shorter month begins on its last day' })}
          data={numbered(days)}
          value={String(day)}
          onChange={({ currentTarget: { value } }) => onChange({ day: Number(value) })}
        />
      )}
      {hasMonth(every) && (
        <NativeSelect
          label="Month"
          data={numbered(MONTHS)}
          value={String(month)}
          onChange={({ currentTarget: { value } }) => onChange({ month: Number(value) })}
        />
      )}
      <NativeSelect
        label="Time zone"
        description="They begin at midnight there"
        data={zones}
        value={zone}
        onChange={({ currentTarget: { value } }) => onChange({ zone: value })}
      />
    </>
  );
}
