import { applyDecorators } from '@nestjs/common';
import { ArrayMaxSize, IsArray, IsIn } from 'class-validator';
import {
  QUOTA_WINDOWS,
  type QuotaWindow,
  RISK_CLASSES,
  RISK_COUNTER,
  type RiskClass,
} from '../../ledger/index.js';
import { IsInt, IsNumber, Length, MaxLength, NestedArray, Optional, Satisfies } from '../../wire/index.js';

const MAX_CALLS = 100_000;
const MIN_RUN_TTL_MS = 60_000;
const MAX_RUN_TTL_MS = 604_800_000;
const KIND_MAX_LENGTH = 64;
/** The protocol names no limit. A reserve reads all rules of its policy. */
const ALLOWLIST_MAX_SIZE = 50;

/** Whether a rule may name this kind. The registry need not have it: unregistered kinds are accepted, and rules must reach them. */
export function isExactKind(kind: unknown): boolean {
  return (
    typeof kind !== 'string' ||
    !(
      kind.includes('*') ||
      (RISK_CLASSES as readonly string[]).includes(kind) ||
      kind.startsWith(RISK_COUNTER)
    )
  );
}

const EXACT = 'the exact name of an action kind, without wildcards, and no risk class';

function Kinds(): PropertyDecorator {
  return applyDecorators(
    Optional(),
    IsArray(),
    ArrayMaxSize(200),
    Length(1, KIND_MAX_LENGTH, { each: true }),
    Satisfies(
      `a list whose entries are each ${EXACT}`,
      (list: unknown) => !Array.isArray(list) || list.every(isExactKind),
    ),
  );
}

function Names(maxLength: number): PropertyDecorator {
  return applyDecorators(
    Optional(),
    IsArray(),
    ArrayMaxSize(ALLOWLIST_MAX_SIZE),
    MaxLength(maxLength, { each: true }),
  );
}

class QuotaDto {
  @IsInt({ min: 1, max: MAX_CALLS })
  max_calls!: number;

  @IsIn(QUOTA_WINDOWS)
  window!: QuotaWindow;

  @Optional(IsInt({ min: MIN_RUN_TTL_MS, max: MAX_RUN_TTL_MS }))
  per_run_counter_ttl_ms?: number;

  @Optional(IsNumber({ min: 0.01, max: 0.99 }))
  threshold_pct?: number;
}

/** ActionQuota of cycles-action-kinds-v0.1.26. */
export class ActionQuotaDto extends QuotaDto {
  @Length(1, KIND_MAX_LENGTH)
  @Satisfies(EXACT, isExactKind)
  action_kind!: string;

  @Names(253)
  host_allowlist?: string[];

  @Names(253)
  recipient_domain_allowlist?: string[];

  @Names(128)
  resource_type_allowlist?: string[];
}

/** RiskClassQuota of cycles-action-kinds-v0.1.26. */
export class RiskClassQuotaDto extends QuotaDto {
  @IsIn(RISK_CLASSES)
  risk_class!: RiskClass;
}

/** PolicyExtension of cycles-governance-extensions-v0.1.26. */
export class ActionRulesDto {
  @Optional()
  @ArrayMaxSize(50)
  @NestedArray(() => ActionQuotaDto)
  action_quotas?: ActionQuotaDto[];

  @Optional()
  @ArrayMaxSize(20)
  @NestedArray(() => RiskClassQuotaDto)
  risk_class_quotas?: RiskClassQuotaDto[];

  @Kinds()
  allowed_action_kinds?: string[];

  @Kinds()
  denied_action_kinds?: string[];
}
