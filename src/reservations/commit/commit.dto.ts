import { IsInt, IsString, Min } from 'class-validator';
import { IsFreeObject, Length, MaxLength, Nested, Optional } from '../../wire/index.js';
import { AmountDto, IDEMPOTENCY_KEY_MAX_LENGTH } from '../request-parts.dto.js';

/** StandardMetrics of the protocol. */
export class StandardMetricsDto {
  @Optional()
  @IsInt()
  @Min(0)
  tokens_input?: number;

  @Optional()
  @IsInt()
  @Min(0)
  tokens_output?: number;

  @Optional()
  @IsInt()
  @Min(0)
  latency_ms?: number;

  @Optional()
  @IsString()
  @MaxLength(128)
  model_version?: string;

  @Optional()
  @IsFreeObject()
  custom?: Record<string, unknown>;
}

/** CommitRequest of the protocol. */
export class CommitDto {
  @IsString()
  @Length(1, IDEMPOTENCY_KEY_MAX_LENGTH)
  idempotency_key!: string;

  @Nested(() => AmountDto)
  actual!: AmountDto;

  @Optional()
  @Nested(() => StandardMetricsDto)
  metrics?: StandardMetricsDto;

  @Optional()
  @IsFreeObject()
  metadata?: Record<string, unknown>;
}
