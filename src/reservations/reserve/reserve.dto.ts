import { IsBoolean, IsIn, IsInt, IsString, Max, Min } from 'class-validator';
import { IsFreeObject, Length, Nested, Optional, Satisfies } from '../../http/index.js';
import { OVERAGE_POLICIES, SCOPE_LEVELS, type OveragePolicy } from '../../ledger/index.js';
import { ActionDto, AmountDto, IDEMPOTENCY_KEY_MAX_LENGTH, SubjectDto } from '../request-parts.dto.js';

function namesALevel(subject: unknown): boolean {
  return typeof subject === 'object' && subject !== null && SCOPE_LEVELS.some((level) => level in subject);
}

/** ReservationCreateRequest of the protocol. */
export class ReserveDto {
  @IsString()
  @Length(1, IDEMPOTENCY_KEY_MAX_LENGTH)
  idempotency_key!: string;

  @Nested(() => SubjectDto)
  @Satisfies(`a subject that names at least one of ${SCOPE_LEVELS.join(', ')}`, namesALevel)
  subject!: SubjectDto;

  @Nested(() => ActionDto)
  action!: ActionDto;

  @Nested(() => AmountDto)
  estimate!: AmountDto;

  @Optional()
  @IsInt()
  @Min(1000)
  @Max(86_400_000)
  ttl_ms?: number;

  @Optional()
  @IsInt()
  @Min(0)
  @Max(60_000)
  grace_period_ms?: number;

  @Optional()
  @IsIn(OVERAGE_POLICIES)
  overage_policy?: OveragePolicy;

  @Optional()
  @IsBoolean()
  dry_run?: boolean;

  @Optional()
  @IsFreeObject()
  metadata?: Record<string, unknown>;
}
