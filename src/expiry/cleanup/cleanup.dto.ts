import { IsBoolean, IsInt, IsString, Matches, Max, Min } from 'class-validator';
import { MaxLength, Optional } from '../../wire/index.js';

const YEAR_MS = 366 * 86_400_000;

/** Body of POST /ops/reservations/cleanup. Either `tenant_id` or `all_tenants` is required. */
export class CleanupDto {
  @Optional()
  @IsString()
  @Matches(/^[a-z0-9-]{3,64}$/)
  tenant_id?: string;

  @Optional()
  @IsBoolean()
  all_tenants?: boolean;

  @Optional()
  @IsInt()
  @Min(0)
  @Max(YEAR_MS)
  overdue_for_ms?: number;

  @Optional()
  @IsInt()
  @Min(1)
  @Max(1000)
  limit?: number;

  @Optional()
  @IsBoolean()
  dry_run?: boolean;

  @Optional()
  @IsString()
  @MaxLength(256)
  reason?: string;

  @Optional()
  @IsString()
  @MaxLength(2048)
  cursor?: string;
}
