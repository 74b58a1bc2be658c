import { IsIn, IsInt, IsString, Max, Min } from 'class-validator';
import { MaxLength, Optional } from '../../wire/index.js';

export class QuarantineListQueryDto {
  @Optional()
  @IsString()
  @MaxLength(64)
  reason?: string;

  @Optional()
  @IsString()
  @MaxLength(2048)
  cursor?: string;

  @Optional()
  @IsInt()
  @Min(1)
  @Max(200)
  limit?: number;
}

export class QuarantineDecisionDto {
  @IsIn(['retry', 'release'])
  action!: 'retry' | 'release';

  @Optional()
  @IsString()
  @MaxLength(256)
  reason?: string;
}
