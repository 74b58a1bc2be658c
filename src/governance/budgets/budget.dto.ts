import { IsBoolean, IsIn, IsString } from 'class-validator';
import { BulkRequestDto } from '../../bulk/index.js';
import {
  OVERAGE_POLICIES,
  type OveragePolicy,
  TENANT_ID_PATTERN,
  type Unit,
  UNITS,
} from '../../ledger/index.js';
import {
  fieldsFrom,
  IsDateTime,
  IsFreeObject,
  IsInt64,
  IsNumber,
  Length,
  ListQueryDto,
  Matches,
  MaxLength,
  Nested,
  Optional,
} from '../../wire/index.js';

/** A scope path has at most six segments of 128 characters and their level names. */
export const SCOPE_MAX_LENGTH = 1024;

export const ROLLOVER_POLICIES = ['NONE', 'CARRY_FORWARD', 'CAP_AT_ALLOCATED'] as const;
export type RolloverPolicy = (typeof ROLLOVER_POLICIES)[number];

/** Amount of cycles-governance-admin-v0.1.25. */
export class AmountDto {
  @IsIn(UNITS)
  unit!: Unit;

  @IsInt64({ min: 0 })
  amount!: number | bigint;
}

/** What a budget is made with, by a request or by a template. */
export class BudgetTermsDto {
  @IsIn(UNITS)
  unit!: Unit;

  @Nested(() => AmountDto)
  allocated!: AmountDto;

  @Optional(Nested(() => AmountDto))
  overdraft_limit?: AmountDto;

  @Optional(IsIn(OVERAGE_POLICIES))
  commit_overage_policy?: OveragePolicy;

  @Optional(IsIn(ROLLOVER_POLICIES))
  rollover_policy?: RolloverPolicy;

  @Optional(IsFreeObject())
  metadata?: Record<string, unknown>;
}

/** BudgetCreateRequest of cycles-governance-admin-v0.1.25. */
export class BudgetCreateDto extends BudgetTermsDto {
  @Optional(Matches(TENANT_ID_PATTERN))
  tenant_id?: string;

  @Length(1, SCOPE_MAX_LENGTH)
  scope!: string;

  @Optional(IsDateTime())
  period_start?: string;

  @Optional(IsDateTime())
  period_end?: string;
}

export const FUNDING_OPERATIONS = ['CREDIT', 'DEBIT', 'RESET', 'RESET_SPENT', 'REPAY_DEBT'] as const;
export type FundingOperation = (typeof FUNDING_OPERATIONS)[number];

/** BudgetFundingRequest of cycles-governance-admin-v0.1.25. */
export class BudgetFundingDto {
  @IsIn(FUNDING_OPERATIONS)
  operation!: FundingOperation;

  @Nested(() => AmountDto)
  amount!: AmountDto;

  /** Used by RESET_SPENT only; other operations ignore it. */
  @Optional(Nested(() => AmountDto))
  spent?: AmountDto;

  @Optional(MaxLength(512))
  reason?: string;

  @Optional(Length(1, 256))
  idempotency_key?: string;

  @Optional(IsFreeObject())
  metadata?: Record<string, unknown>;
}

/** The body of updateBudget of cycles-governance-admin-v0.1.25. */
export class BudgetUpdateDto {
  @Optional(Nested(() => AmountDto))
  overdraft_limit?: AmountDto;

  @Optional(IsIn(OVERAGE_POLICIES))
  commit_overage_policy?: OveragePolicy;

  @Optional(IsFreeObject())
  metadata?: Record<string, unknown>;
}

/** Changes of a budget's period. The protocol sets it only when a budget is created. */
export class BudgetPeriodUpdateDto {
  @Optional(IsIn(ROLLOVER_POLICIES))
  rollover_policy?: RolloverPolicy;

  @Optional(IsDateTime())
  period_start?: string;

  @Optional(IsDateTime())
  period_end?: string;
}

/** BudgetStatusTransitionRequest of cycles-governance-admin-v0.1.25. */
export class BudgetStatusTransitionDto {
  @Optional(MaxLength(512))
  reason?: string;

  @Optional(IsFreeObject())
  metadata?: Record<string, unknown>;
}

/** Scope and unit identify a budget. */
export class BudgetLookupQueryDto {
  @Length(1, SCOPE_MAX_LENGTH)
  scope!: string;

  @IsIn(UNITS)
  unit!: Unit;
}

export class BudgetFundingQueryDto extends BudgetLookupQueryDto {
  @Optional(IsString())
  tenant_id?: string;
}

export const BUDGET_STATUSES = ['ACTIVE', 'FROZEN', 'CLOSED'] as const;
export type BudgetStatus = (typeof BUDGET_STATUSES)[number];

export const BUDGET_SORT_KEYS = [
  'tenant_id',
  'scope',
  'unit',
  'status',
  'commit_overage_policy',
  'utilization',
  'debt',
  /** Holdfast's own: what is spent and held, as a share of what is allocated, or of the window that is used most, if that is more. */
  'used',
] as const;
export type BudgetSortKey = (typeof BUDGET_SORT_KEYS)[number];

/** A bound of the share of a budget that is used, 0 to 1. */
function Utilization(): PropertyDecorator {
  return Optional(IsNumber({ min: 0, max: 1 }));
}

export class BudgetListQueryDto extends ListQueryDto {
  @Optional(IsString())
  tenant_id?: string;

  @Optional(MaxLength(SCOPE_MAX_LENGTH))
  scope_prefix?: string;

  @Optional(IsIn(UNITS))
  unit?: Unit;

  @Optional(IsIn(BUDGET_STATUSES))
  status?: BudgetStatus;

  @Optional(IsBoolean())
  over_limit?: boolean;

  @Optional(IsBoolean())
  has_debt?: boolean;

  @Utilization()
  utilization_min?: number;

  @Utilization()
  utilization_max?: number;

  @Optional(IsIn(BUDGET_SORT_KEYS))
  sort_by?: BudgetSortKey;
}

/** BudgetBulkFilter of cycles-governance-admin-v0.1.25. */
export class BudgetBulkFilterDto extends fieldsFrom(
  BudgetListQueryDto,
  'scope_prefix',
  'unit',
  'status',
  'over_limit',
  'has_debt',
  'utilization_min',
  'utilization_max',
  'search',
) {
  @Matches(TENANT_ID_PATTERN)
  tenant_id!: string;
}

/** BudgetBulkActionRequest of cycles-governance-admin-v0.1.25. Each action needs an amount. */
export class BudgetBulkActionDto extends BulkRequestDto {
  @Nested(() => BudgetBulkFilterDto)
  filter!: BudgetBulkFilterDto;

  @IsIn(FUNDING_OPERATIONS)
  action!: FundingOperation;

  @Nested(() => AmountDto)
  amount!: AmountDto;

  /** Used by RESET_SPENT only; other actions ignore it. */
  @Optional(Nested(() => AmountDto))
  spent?: AmountDto;

  @Optional(MaxLength(512))
  reason?: string;
}
