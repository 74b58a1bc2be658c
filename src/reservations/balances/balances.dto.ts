import { IsBoolean, IsIn, IsInt, IsString, Max, Min } from 'class-validator';
import { type Unit, UNITS } from '../../ledger/index.js';
import { MaxLength, Optional } from '../../wire/index.js';
import { SubjectLevelsDto } from '../request-parts.dto.js';

/** Query of GET /v1/balances: subject levels for the runtime view, budget filters for the governance view, and paging. */
export class BalancesQueryDto extends SubjectLevelsDto {
  @Optional()
  @IsBoolean()
  include_children?: boolean;

  @Optional()
  @IsString()
  tenant_id?: string;

  @Optional()
  @IsString()
  @MaxLength(1024)
  scope_prefix?: string;

  @Optional()
  @IsIn(UNITS)
  unit?: Unit;

  @Optional()
  @IsInt()
  @Min(1)
  @Max(200)
  limit?: number;

  @Optional()
  @IsString()
  cursor?: string;
}
