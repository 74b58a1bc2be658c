import { ArrayMaxSize, ArrayMinSize, IsBoolean } from 'class-validator';
import { DAY_MS, TENANT_ID_PATTERN } from '../../ledger/index.js';
import { IsInt, Length, ListQueryDto, Matches, Nested, NestedArray, Optional } from '../../wire/index.js';
import { BudgetTermsDto, SCOPE_MAX_LENGTH } from '../budgets/budget.dto.js';
import { PeriodCalendarDto } from '../budgets/recurrence.dto.js';
import { BudgetWindowDto, MOST_WINDOWS } from '../budgets/windows.service.js';
import { Says, TemplateCreditDto } from '../credits/credit.dto.js';

const MINUTE_MS = 60_000;
const TEN_YEARS_MS = 3650 * DAY_MS;
const MOST_CREDITS = 16;

/** What a template sets, which PUT replaces as a whole. */
export class BudgetTemplateDto extends BudgetTermsDto {
  @Matches(TENANT_ID_PATTERN)
  tenant_id!: string;

  /** A scope, whose last segments may have `*` in place of a value. */
  @Length(1, SCOPE_MAX_LENGTH)
  scope_pattern!: string;

  /** The length of periods that begin with the budget. */
  @Optional(IsInt({ min: MINUTE_MS, max: TEN_YEARS_MS }))
  period_ms?: number;

  /** The calendar at whose boundaries periods begin. The first one begins with the budget. */
  @Optional(Nested(() => PeriodCalendarDto))
  recurrence?: PeriodCalendarDto;

  @Optional()
  @ArrayMinSize(1)
  @ArrayMaxSize(MOST_WINDOWS)
  @NestedArray(() => BudgetWindowDto)
  windows?: BudgetWindowDto[];

  @Optional()
  @Says('What each budget that it makes gets beside its allocation, once. Each needs a name of its own.')
  @ArrayMinSize(1)
  @ArrayMaxSize(MOST_CREDITS)
  @NestedArray(() => TemplateCreditDto)
  credits?: TemplateCreditDto[];

  /** Whether the budgets that it has made get what it sets, too: up to 500 of them by one request. */
  @Optional(IsBoolean())
  apply_to_existing?: boolean;

  /** Of the change of the budgets that it has made. */
  @Optional(Length(1, 128))
  idempotency_key?: string;
}

export class BudgetTemplateQueryDto {
  @Matches(TENANT_ID_PATTERN)
  tenant_id!: string;
}

export class BudgetTemplateListQueryDto extends ListQueryDto {
  @Matches(TENANT_ID_PATTERN)
  tenant_id!: string;
}
