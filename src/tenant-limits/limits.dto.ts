import { applyDecorators } from '@nestjs/common';
import { IsInt, Max, Min } from 'class-validator';
import { Optional } from '../http/index.js';
import type { TenantLimit } from '../ledger/index.js';

/** So that what is left of a limit is exact in a script's arithmetic. */
const HIGHEST = 1_000_000_000_000;

function Limit(): PropertyDecorator {
  return applyDecorators(Optional(), IsInt(), Min(0), Max(HIGHEST));
}

/** A tenant's own limits as a whole; 0 is no limit, and what is left out is the deployment's. */
export class TenantLimitsDto implements Partial<Record<TenantLimit, number>> {
  @Limit()
  live_reservations?: number;

  @Limit()
  budgets?: number;

  @Limit()
  policies?: number;

  @Limit()
  api_keys?: number;

  @Limit()
  webhooks?: number;

  @Limit()
  stored_bytes?: number;
}
