import { IsIn } from 'class-validator';
import { OVERAGE_POLICIES, type OveragePolicy } from '../../ledger/index.js';
import { IsInt64, Nested, Optional } from '../../wire/index.js';
import { StandardMetricsDto } from '../commit/commit.dto.js';
import { AdmissionDto, AmountDto } from '../request-parts.dto.js';

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

  /** Advisory: no decision depends on it. */
  @Optional()
  @IsInt64({ min: 0 })
  client_time_ms?: number | bigint;
}
