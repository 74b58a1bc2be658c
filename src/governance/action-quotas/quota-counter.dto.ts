import { IsBoolean, IsIn, IsString } from 'class-validator';
import { QUOTA_WINDOWS, type QuotaWindow, RISK_CLASSES, type RiskClass } from '../../ledger/index.js';
import { Length, MaxLength, Optional, PageCursor, PageLimit } from '../../wire/index.js';

export const COUNTERS_MAX_LIMIT = 200;
const KIND_MAX_LENGTH = 64;
const SCOPE_MAX_LENGTH = 1024;
const RUN_MAX_LENGTH = 256;

/** The parameters of listActionQuotaCounters of cycles-action-kinds-v0.1.26. */
export class QuotaCounterListQueryDto {
  @Optional(IsString())
  tenant_id?: string;

  /** The start of a scope. */
  @Optional(MaxLength(SCOPE_MAX_LENGTH))
  scope?: string;

  @Optional(MaxLength(KIND_MAX_LENGTH))
  action_kind?: string;

  @Optional(IsIn(QUOTA_WINDOWS))
  window?: QuotaWindow;

  /** Only the counters of this run. */
  @Optional(MaxLength(RUN_MAX_LENGTH))
  run_id?: string;

  /** Whether counters are listed that count nothing now. */
  @Optional(IsBoolean())
  include_zero?: boolean;

  @PageCursor()
  cursor?: string;

  @PageLimit(COUNTERS_MAX_LIMIT)
  limit?: number;
}

/** ActionQuotaCounterResetRequest of the same document. Its prose requires the tenant. */
export class QuotaCounterResetDto {
  @IsString()
  tenant_id!: string;

  @Length(1, SCOPE_MAX_LENGTH)
  scope!: string;

  /** `__risk__` for the counter of a risk class. */
  @MaxLength(KIND_MAX_LENGTH)
  action_kind!: string;

  @Optional(IsIn(RISK_CLASSES))
  risk_class?: RiskClass;

  @IsIn(QUOTA_WINDOWS)
  window!: QuotaWindow;

  /** As a list shows it. */
  @MaxLength(RUN_MAX_LENGTH)
  window_key!: string;

  @Optional(MaxLength(512))
  reason?: string;
}
