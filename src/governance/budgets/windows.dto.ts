import { ArrayMaxSize, ArrayMinSize, IsString, Matches } from 'class-validator';
import { Nested, NestedArray } from '../../wire/index.js';
import { AmountDto } from './budget.dto.js';
import { RecurrenceDto } from './recurrence.dto.js';

/** Each request that charges a budget reads and writes all of its windows. */
export const MOST_WINDOWS = 4;

/** One window of a budget, such as its day: what may be used in it, and when the next one begins. */
export class BudgetWindowDto extends RecurrenceDto {
  @IsString()
  @Matches(/^[a-z0-9][a-z0-9_-]{0,31}$/)
  name!: string;

  @Nested(() => AmountDto)
  limit!: AmountDto;
}

export class BudgetWindowsDto {
  @ArrayMinSize(1)
  @ArrayMaxSize(MOST_WINDOWS)
  @NestedArray(() => BudgetWindowDto)
  windows!: BudgetWindowDto[];
}
