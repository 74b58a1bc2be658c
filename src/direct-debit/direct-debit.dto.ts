import { IsIn } from 'class-validator';
import { IsInt64, Nested, Optional } from '../http/index.js';
import { OVERAGE_POLICIES, type OveragePolicy } from '../ledger/index.js';
import { AdmissionDto, AmountDto, StandardMetricsDto } from '../reservations/index.js';

/** EventCreateRequest of the protocol. */
export class DirectDebitDto extends AdmissionDto {
  @Nested(() => AmountDto)
  actual!: AmountDto;

  @Optional()
  @IsIn(OVERAGE_POLICIES)
  overage_policy?: OveragePolicy;

  @Optional()
  @Nested(() => StandardMetricsDto)
  metrics?: StandardMetricsDto;

  /** Advisory: no decision looks at it. */
  @Optional()
  @IsInt64({ min: 0 })
  client_time_ms?: number | bigint;
}
