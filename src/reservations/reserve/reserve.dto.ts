import { IsBoolean, IsIn, IsInt, Max, Min } from 'class-validator';
import { OVERAGE_POLICIES, type OveragePolicy } from '../../ledger/index.js';
import { Nested, Optional } from '../../wire/index.js';
import { AdmissionDto, AmountDto } from '../request-parts.dto.js';

/** ReservationCreateRequest of the protocol. */
export class ReserveDto extends AdmissionDto {
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
}
