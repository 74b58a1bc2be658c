import { IsInt, IsString, Max, Min } from 'class-validator';
import { IsFreeObject, Length, Optional } from '../../wire/index.js';
import { IDEMPOTENCY_KEY_MAX_LENGTH } from '../request-parts.dto.js';

/** ReservationExtendRequest of the protocol. */
export class ExtendDto {
  @IsString()
  @Length(1, IDEMPOTENCY_KEY_MAX_LENGTH)
  idempotency_key!: string;

  @IsInt()
  @Min(1)
  @Max(86_400_000)
  extend_by_ms!: number;

  @Optional()
  @IsFreeObject()
  metadata?: Record<string, unknown>;
}
