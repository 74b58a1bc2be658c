import { NativeSelect } from '@mantine/core';
import type { ReactNode } from 'react';
import { type Calendar, type Every, hasDay, hasMonth, MONTHS, WEEKDAYS } from './recurrence';

const HOURS = Array.from({ length: 24 }, (_, hour) => String(hour));
const MONTH_DAYS = Array.from({ length: 31 }, (_, day) => String(day + 1));

/** What a calendar is made of. */
export function CalendarFields<E extends Every>({
  calendar: { every, zone, day, month, hour, length },
  choices,
  onChange,
}: {
  calendar: Calendar<E>;
  choices: readonly E[];
  onChange: (part: Partial<Calendar<E>>) => void;
}): ReactNode {
  const zones = [...new Set(['UTC', zone, ...Intl.supportedValuesOf('timeZone')])];
  const days = every === 'week' ? WEEKDAYS : MONTH_DAYS;
  const numbered = (names: readonly string[]): { value: string; label: string }[] =>
    names.map((label, index) => ({ value: String(index + 1), label }));
  return (
    <>
      <NativeSelect
        label="Every"
        data={[...choices]}
        value={every}
        onChange={({ currentTarget: { value } }) => onChange({ every: value as E, day: 1 })}
      />
      {every === 'hour' && (
        <NativeSelect
          label="Hours"
          description="Each day begins with a new window"
          data={HOURS.slice(1)}
          value={String(length)}
          onChange={({ currentTarget: { value } }) => onChange({ length: Number(value) })}
        />
      )}
      {hasDay(every) && (
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
      {every !== 'hour' && (
        <NativeSelect
          label="Begins at"
          data={HOURS.map((value) => ({ value, label: `${value}:00` }))}
          value={String(hour)}
          onChange={({ currentTarget: { value } }) => onChange({ hour: Number(value) })}
        />
      )}
      <NativeSelect
        label="Time zone"
        description="They begin by the clocks there"
        data={zones}
        value={zone}
        onChange={({ currentTarget: { value } }) => onChange({ zone: value })}
      />
    </>
  );
}
