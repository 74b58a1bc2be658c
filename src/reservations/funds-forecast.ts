import { Injectable } from '@nestjs/common';
import type { IncomingHttpHeaders } from 'node:http';
import { scopeAllowed, type TenantCaller } from '../auth/index.js';
import { deriveScopes, type ErrorCode, INT64_MAX, invalidField, Refusal } from '../ledger/index.js';
import { RedisService, type ScriptReply, tagOfTenant, ttlIndexKey } from '../redis/index.js';
import { MetricsRegistry } from '../telemetry/index.js';
import { EARLIER_WAITER } from './script-refusals.js';
import type { AmountDto, SubjectDto } from './request-parts.dto.js';
import { RESERVATION_METRICS } from './reservations.metrics.js';

/**
 * What a caller wanted, to hold or to charge, and where: at the scopes of a subject, or at those of the hold that it commits. A retry also
 * needs what a set holds beside it in the same unit.
 */
export type Wanted = { readonly caller: TenantCaller; readonly amount: AmountDto } & (
  | {
      readonly subject: SubjectDto;
      readonly isHeld?: boolean;
      readonly beside?: readonly { readonly estimate: AmountDto; readonly subject: SubjectDto }[];
    }
  | { readonly reservationId: string }
);

/** The refusals for lack of budget. */
export const FOR_LACK_OF_BUDGET: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'BUDGET_EXCEEDED',
  'OVERDRAFT_LIMIT_EXCEEDED',
  'DEBT_OUTSTANDING',
]);

/** Why a retry does not succeed however long the client waits, or undefined if returned funds are enough. */
function lastingHindrance(code: ErrorCode, wanted: Wanted): string | undefined {
  // Only REJECT refuses a commit with this code, whatever remains.
  return code === 'BUDGET_EXCEEDED' && 'reservationId' in wanted ? 'OVERAGE_REJECTED' : undefined;
}

/** Which budgets refuse what is wanted, as lua/ledger/forecast_funds.lua takes it. */
function useOf(code: ErrorCode, wanted: Wanted): string {
  if ('subject' in wanted && wanted.isHeld === true) {
    return 'hold';
  }
  return code === 'OVERDRAFT_LIMIT_EXCEEDED' ? 'overdraft' : 'charge';
}

/**
 * Whether the client asks for explanations.
 * @throws Refusal INVALID_REQUEST if the header is neither true nor false.
 */
export function asksToExplain({ headers }: { readonly headers: IncomingHttpHeaders }): boolean {
  const value = headers['x-holdfast-explain'];
  if (value !== undefined && value !== 'true' && value !== 'false') {
    throw invalidField('X-Holdfast-Explain', 'X-Holdfast-Explain must be true or false');
  }
  return value === 'true';
}

/** Explains refusals for lack of budget to the clients that ask for it: what is short, which holds end first, and when to retry. */
@Injectable()
export class FundsForecast {
  private readonly counts = this.metrics.of(RESERVATION_METRICS);

  constructor(
    private readonly redis: RedisService,
    private readonly metrics: MetricsRegistry,
  ) {}

  /**
   * Adds details and `Retry-After` to a refusal for lack of budget. They describe the moment after the refusal, so evidence does not
   * include them.
   * @throws StoreUnavailable if Redis is lost in between
   */
  async explain(refusal: Refusal, wanted: Wanted): Promise<void> {
    if (!FOR_LACK_OF_BUDGET.has(refusal.code)) {
      return;
    }
    if (refusal.details?.['kept_for'] === EARLIER_WAITER) {
      // Nothing is short, and no deadline of a hold says when the other one has its funds.
      refusal.details = {
        ...refusal.details,
        unit: wanted.amount.unit,
        requested: BigInt(wanted.amount.amount),
        retry_unknown: EARLIER_WAITER,
      };
      this.counts.forecasts.inc({ result: 'unknown' });
      return;
    }
    const forecast = await this.forecast(wanted, useOf(refusal.code, wanted));
    const { nowMs, enoughAtMs, scope, window } = forecast;
    // The holds at an allowed scope are allowed, too, and so are the scopes below it.
    const isAllowed = scope === '' || scopeAllowed(wanted.caller.scopeFilter, scope);
    const hindrance =
      lastingHindrance(refusal.code, wanted) ?? (isAllowed ? undefined : 'OUTSIDE_SCOPE_FILTER');
    const holds = isAllowed ? forecast.holds : [];
    const retryAfterMs = hindrance === undefined && enoughAtMs !== undefined ? enoughAtMs - nowMs : undefined;
    refusal.details = {
      ...refusal.details,
      ...(scope === '' ? {} : { scope, window, remaining: BigInt(forecast.remaining) }),
      unit: wanted.amount.unit,
      requested: BigInt(forecast.requested),
      short_by: BigInt(forecast.shortBy),
      holds_ending_first: holds.map(({ amount, deadlineMs }) => ({
        amount: BigInt(amount),
        ends_at_ms: deadlineMs,
      })),
      ...(retryAfterMs === undefined
        ? { retry_unknown: hindrance ?? forecast.unknown }
        : { retry_after_ms: retryAfterMs }),
    };
    refusal.retryAfterS = retryAfterMs === undefined ? undefined : Math.ceil(retryAfterMs / 1000);
    this.counts.forecasts.inc({ result: retryAfterMs === undefined ? 'unknown' : 'known' });
  }

  private forecast(wanted: Wanted, use: string): Promise<ScriptReply<'forecast_funds'>> {
    const { partitions } = this.redis;
    const { tenantId } = wanted.caller;
    const { unit, amount } = wanted.amount;
    const reservationId = 'reservationId' in wanted ? wanted.reservationId : '';
    const tag = tagOfTenant(tenantId, partitions);
    return this.redis.scripts.call(
      'forecast_funds',
      { ttlIndex: ttlIndexKey(tag) },
      {
        tenantId,
        unit,
        amount: amount.toString(),
        reservationId,
        use,
        rest: 'subject' in wanted ? amountsByScope(wanted) : [],
      },
    );
  }
}

/** Scopes from the root, each followed by what is wanted there. */
function amountsByScope({
  caller,
  amount,
  subject,
  beside = [],
}: Extract<Wanted, { subject: unknown }>): string[] {
  const amounts = new Map<string, bigint>();
  for (const one of [{ estimate: amount, subject }, ...beside]) {
    for (const scope of deriveScopes(one.subject, caller.tenantId)) {
      amounts.set(scope, (amounts.get(scope) ?? 0n) + BigInt(one.estimate.amount));
    }
  }
  return [...amounts].flatMap(([scope, sum]) => [scope, String(sum > INT64_MAX ? INT64_MAX : sum)]);
}
