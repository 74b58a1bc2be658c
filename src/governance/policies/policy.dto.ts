import { IsArray, IsBoolean, IsIn, IsString } from 'class-validator';
import {
  MAX_TTL_MS,
  MIN_TTL_MS,
  OVERAGE_POLICIES,
  type OveragePolicy,
  TENANT_ID_PATTERN,
} from '../../ledger/index.js';
import { ActionRulesDto } from './action-rules.dto.js';
import {
  IsDateTime,
  IsInt,
  IsInt64,
  Length,
  ListQueryDto,
  Matches,
  MaxLength,
  Nested,
  Optional,
} from '../../wire/index.js';

const MAX_COUNT = 2_147_483_647;
const PATTERN_MAX_LENGTH = 1024;

/** Caps of cycles-governance-admin-v0.1.25, the same as in cycles-protocol-v0. */
export class CapsDto {
  @Optional(IsInt64({ min: 0 }))
  max_tokens?: number | bigint;

  @Optional(IsInt64({ min: 0 }))
  max_steps_remaining?: number | bigint;

  @Optional()
  @IsArray()
  @MaxLength(256, { each: true })
  tool_allowlist?: string[];

  @Optional()
  @IsArray()
  @MaxLength(256, { each: true })
  tool_denylist?: string[];

  @Optional(IsInt64({ min: 0 }))
  cooldown_ms?: number | bigint;
}

/** ReservationTtlOverride of cycles-governance-admin-v0.1.25. */
export class ReservationTtlOverrideDto {
  @Optional(IsInt({ min: MIN_TTL_MS, max: MAX_TTL_MS }))
  default_ttl_ms?: number;

  @Optional(IsInt({ min: MIN_TTL_MS, max: MAX_TTL_MS }))
  max_ttl_ms?: number;

  @Optional(IsInt({ min: 0, max: MAX_COUNT }))
  max_extensions?: number;
}

/** RateLimits of cycles-governance-admin-v0.1.25. */
export class RateLimitsDto {
  @Optional(IsInt({ min: 1, max: MAX_COUNT }))
  max_reservations_per_minute?: number;

  @Optional(IsInt({ min: 1, max: MAX_COUNT }))
  max_commits_per_minute?: number;
}

/** The settings that both create and update accept. */
class PolicySettingsDto extends ActionRulesDto {
  @Optional(MaxLength(1024))
  description?: string;

  @Optional(IsInt({ min: 0, max: MAX_COUNT }))
  priority?: number;

  @Optional(Nested(() => CapsDto))
  caps?: CapsDto;

  @Optional(IsIn(OVERAGE_POLICIES))
  commit_overage_policy?: OveragePolicy;

  @Optional(Nested(() => ReservationTtlOverrideDto))
  reservation_ttl_override?: ReservationTtlOverrideDto;

  @Optional(Nested(() => RateLimitsDto))
  rate_limits?: RateLimitsDto;

  @Optional(IsDateTime())
  effective_from?: string;

  @Optional(IsDateTime())
  effective_until?: string;
}

/** PolicyCreateRequest of cycles-governance-admin-v0.1.25. Unsupported settings are refused, not stored. */
export class PolicyCreateDto extends PolicySettingsDto {
  @Optional(Matches(TENANT_ID_PATTERN))
  tenant_id?: string;

  @Length(1, 256)
  name!: string;

  @Length(1, PATTERN_MAX_LENGTH)
  scope_pattern!: string;
}

export const POLICY_STATUSES = ['ACTIVE', 'DISABLED'] as const;
type PolicyStatus = (typeof POLICY_STATUSES)[number];

/** The body of updatePolicy. */
export class PolicyUpdateDto extends PolicySettingsDto {
  @Optional(Length(1, 256))
  name?: string;

  @Optional(IsIn(POLICY_STATUSES))
  status?: PolicyStatus;
}

export class PolicyListQueryDto extends ListQueryDto {
  @Optional(IsString())
  tenant_id?: string;

  @Optional(MaxLength(PATTERN_MAX_LENGTH))
  scope_pattern?: string;

  @Optional(IsIn(POLICY_STATUSES))
  status?: PolicyStatus;

  /** Whether the policy has quotas of actions or of risk classes. */
  @Optional(IsBoolean())
  has_action_quotas?: boolean;

  /** A kind that its quotas or lists name. */
  @Optional(MaxLength(64))
  references_action_kind?: string;
}
