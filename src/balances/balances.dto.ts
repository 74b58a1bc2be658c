import { IsBoolean, IsInt, IsString, Max, Min } from 'class-validator';
import { Optional } from '../http/index.js';
import { SubjectLevelsDto } from '../reservations/index.js';

/** Query of GET /v1/balances: the levels of a subject, and paging. */
export class BalancesQueryDto extends SubjectLevelsDto {
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
