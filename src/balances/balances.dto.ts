import { IsBoolean, IsInt, IsString, Matches, Max, Min } from 'class-validator';
import { Length, Optional } from '../http/index.js';
import { SEGMENT_MAX_LENGTH, SEGMENT_PATTERN } from '../ledger/index.js';

/** Query of GET /v1/balances: the levels of a subject, and paging. */
export class BalancesQueryDto {
  @Optional()
  @IsString()
  @Length(1, SEGMENT_MAX_LENGTH)
  @Matches(SEGMENT_PATTERN)
  tenant?: string;

  @Optional()
  @IsString()
  @Length(1, SEGMENT_MAX_LENGTH)
  @Matches(SEGMENT_PATTERN)
  workspace?: string;

  @Optional()
  @IsString()
  @Length(1, SEGMENT_MAX_LENGTH)
  @Matches(SEGMENT_PATTERN)
  app?: string;

  @Optional()
  @IsString()
  @Length(1, SEGMENT_MAX_LENGTH)
  @Matches(SEGMENT_PATTERN)
  workflow?: string;

  @Optional()
  @IsString()
  @Length(1, SEGMENT_MAX_LENGTH)
  @Matches(SEGMENT_PATTERN)
  agent?: string;

  @Optional()
  @IsString()
  @Length(1, SEGMENT_MAX_LENGTH)
  @Matches(SEGMENT_PATTERN)
  toolset?: string;

  @Optional()
  @IsBoolean()
  include_children?: boolean;

  @Optional()
  @IsInt()
  @Min(1)
  @Max(200)
  limit?: number;

  @Optional()
  @IsString()
  cursor?: string;
}
