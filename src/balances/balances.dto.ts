import { IsBoolean, IsIn, IsInt, IsString, Max, Min } from 'class-validator';
import { MaxLength, Optional } from '../http/index.js';
import { UNITS, type Unit } from '../ledger/index.js';
import { SubjectLevelsDto } from '../reservations/index.js';

/** Query of GET /v1/balances: the levels of a subject for the runtime's view, a filter of ledgers for the governance view, and paging. */
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

const GOVERNANCE_FILTERS = ['tenant_id', 'scope_prefix', 'unit'] as const;

/** Both documents have this operation; a filter that only one of them knows says which view is asked for. */
export function asksForLedgers(query: BalancesQueryDto): boolean {
  return GOVERNANCE_FILTERS.some((name) => query[name] !== undefined);
}
