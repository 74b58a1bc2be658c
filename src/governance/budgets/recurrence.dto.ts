import { IsIn, IsInt, IsString, Max, Min } from 'class-validator';
import { Optional, Satisfies } from '../../wire/index.js';
import { ROLLOVER_POLICIES, type RolloverPolicy } from './budget.dto.js';
import { canonicalZone, type Every, EVERY } from './recurrence.js';

/** The calendar that the periods of a budget follow. */
export class BudgetRecurrenceDto {
  @IsIn(EVERY)
  every!: Every;

  @IsString()
  @Satisfies(
    'an IANA time zone such as Europe/Berlin',
    (value) => canonicalZone(value as string) !== undefined,
  )
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

  @Optional()
  @IsIn(ROLLOVER_POLICIES)
  rollover_policy?: RolloverPolicy;
}
