import { IsString } from 'class-validator';
import { Length, MaxLength, Optional } from '../../wire/index.js';
import { IDEMPOTENCY_KEY_MAX_LENGTH } from '../request-parts.dto.js';

/** ReleaseRequest of the protocol. */
export class ReleaseDto {
  @IsString()
  @Length(1, IDEMPOTENCY_KEY_MAX_LENGTH)
  idempotency_key!: string;

  @Optional()
  @IsString()
  @MaxLength(256)
  reason?: string;
}
