import { IsIn, IsString } from 'class-validator';
import { invalidField } from '../../ledger/index.js';
import { IsInt, Optional, Satisfies } from '../../wire/index.js';
import { ROLLOVER_POLICIES, type RolloverPolicy } from './budget.dto.js';
import { type Every, EVERY, PERIODS, type Recurrence } from './recurrence.js';
import { isTimeZone } from './time-zone.js';

/** A rule that names the boundaries of a calendar. */
abstract class CalendarDto {
  abstract every: Every;

  @IsString()
  @Satisfies('an IANA time zone such as Europe/Berlin', (value) => isTimeZone(value as string))
  time_zone!: string;

  /** Of the week, 1 for Monday, or of the month; a shorter month begins on its last day. */
  @Optional(IsInt({ min: 1, max: 31 }))
  anchor_day?: number;

  /** In which years begin, or one in which quarters do. */
  @Optional(IsInt({ min: 1, max: 12 }))
  anchor_month?: number;

  /** The hour of the day at which a period or window begins. */
  @Optional(IsInt({ min: 0, max: 23 }))
  anchor_hour?: number;
}

/** The calendar that a window of a budget follows. */
export class WindowRecurrenceDto extends CalendarDto {
  @IsIn(EVERY)
  every!: Every;

  /** The length of windows of hours. Each day begins with a new window. */
  @Optional(IsInt({ min: 1, max: 23 }))
  length_hours?: number;
}

/** The calendar that the periods of a budget follow. */
export class PeriodCalendarDto extends CalendarDto {
  @IsIn(PERIODS)
  every!: (typeof PERIODS)[number];
}

export class BudgetRecurrenceDto extends PeriodCalendarDto {
  @Optional(IsIn(ROLLOVER_POLICIES))
  rollover_policy?: RolloverPolicy;
}

/** The members of a rule in requests and answers. */
export type RecurrenceMembers = Omit<WindowRecurrenceDto, 'every'> & { readonly every: Every };

/** Which members each kind of rule has, beside its time zone. */
const MEMBERS: Readonly<Record<Every, readonly (keyof RecurrenceMembers)[]>> = {
  hour: ['length_hours'],
  day: ['anchor_hour'],
  week: ['anchor_day', 'anchor_hour'],
  month: ['anchor_day', 'anchor_hour'],
  quarter: ['anchor_day', 'anchor_month', 'anchor_hour'],
  year: ['anchor_day', 'anchor_month', 'anchor_hour'],
};
const OPTIONAL_MEMBERS = ['anchor_day', 'anchor_month', 'anchor_hour', 'length_hours'] as const;

/**
 * The rule that a request describes.
 * @param path a prefix for the names of its members in refusals
 * @throws Refusal INVALID_REQUEST for a member that does not suit the rule.
 */
export function recurrenceOf(request: RecurrenceMembers, path = ''): Recurrence {
  const { every, time_zone: timeZone, anchor_day: anchorDay = 1, anchor_month: anchorMonth = 1 } = request;
  const { anchor_hour: anchorHour = 0, length_hours: lengthHours = 1 } = request;
  const stray = OPTIONAL_MEMBERS.find(
    (member) => request[member] !== undefined && !MEMBERS[every].includes(member),
  );
  if (stray !== undefined) {
    const suited = EVERY.filter((known) => MEMBERS[known].includes(stray)).join(', ');
    throw invalidField(
      `${path}${stray}`,
      `${path}${stray} must be absent with every ${every}; it is for ${suited}`,
    );
  }
  if (every === 'week' && anchorDay > 7) {
    throw invalidField(`${path}anchor_day`, `${path}anchor_day must be 1 (Monday) to 7 for weeks`);
  }
  return { every, timeZone, anchorDay, anchorMonth, anchorHour, lengthHours };
}

/** The members of a rule as answers show them. An hour of 0, midnight, is not shown. */
export function recurrenceMembers(rule: Recurrence): RecurrenceMembers {
  const shown = {
    anchor_day: rule.anchorDay,
    anchor_month: rule.anchorMonth,
    anchor_hour: rule.anchorHour === 0 ? undefined : rule.anchorHour,
    length_hours: rule.lengthHours,
  };
  return {
    every: rule.every,
    time_zone: rule.timeZone,
    ...Object.fromEntries(
      OPTIONAL_MEMBERS.filter(
        (member) => shown[member] !== undefined && MEMBERS[rule.every].includes(member),
      ).map((member) => [member, shown[member]]),
    ),
  };
}
