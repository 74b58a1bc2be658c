import { IsIn, IsInt, IsString, Max, Min } from 'class-validator';
import { Refusal } from '../../ledger/index.js';
import { Optional, Satisfies } from '../../wire/index.js';
import { ROLLOVER_POLICIES, type RolloverPolicy } from './budget.dto.js';
import { type Every, EVERY, isZone, type Recurrence } from './recurrence.js';

/** A rule that names the boundaries of a calendar. */
export class RecurrenceDto {
  @IsIn(EVERY)
  every!: Every;

  @IsString()
  @Satisfies('an IANA time zone such as Europe/Berlin', (value) => isZone(value as string))
  time_zone!: string;

  /** Of the week, 1 for Monday, or of the month; a shorter month begins on its last day. */
  @Optional()
  @IsInt()
  @Min(1)
  @Max(31)
  anchor_day?: number;

  /** In which years begin, or one in which quarters do. */
  @Optional()
  @IsInt()
  @Min(1)
  @Max(12)
  anchor_month?: number;
}

/** The calendar that the periods of a budget follow. */
export class BudgetRecurrenceDto extends RecurrenceDto {
  @Optional()
  @IsIn(ROLLOVER_POLICIES)
  rollover_policy?: RolloverPolicy;
}

/**
 * The rule that a request describes.
 * @param path a prefix for the names of its members in refusals
 * @throws Refusal INVALID_REQUEST for an anchor that does not suit the rule.
 */
export function recurrenceOf(request: RecurrenceDto, path = ''): Recurrence {
  const { every, time_zone: zone, anchor_day: anchorDay = 1, anchor_month: anchorMonth = 1 } = request;
  const hasDay = every !== 'day';
  if ((every === 'week' && anchorDay > 7) || (!hasDay && request.anchor_day !== undefined)) {
    throw new Refusal(
      'INVALID_REQUEST',
      `${path}anchor_day must be ${hasDay ? '1 (Monday) to 7 for weeks' : 'absent for days'}`,
      { field: `${path}anchor_day` },
    );
  }
  if (every !== 'quarter' && every !== 'year' && request.anchor_month !== undefined) {
    throw new Refusal('INVALID_REQUEST', `${path}anchor_month is for quarters and years`, {
      field: `${path}anchor_month`,
    });
  }
  return { every, timeZone: zone, anchorDay, anchorMonth };
}

/** The members of a rule as answers show them. */
export function recurrenceMembers({ every, timeZone, anchorDay, anchorMonth }: Recurrence): RecurrenceDto {
  return {
    every,
    time_zone: timeZone,
    ...(every !== 'day' && { anchor_day: anchorDay }),
    ...((every === 'quarter' || every === 'year') && { anchor_month: anchorMonth }),
  };
}
