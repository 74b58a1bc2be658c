import { DEFAULT_RATES, type RateThresholds, type SubscriptionCache } from '../webhooks/index.js';

/** How often something must have happened in a window for its rate to be judged: one denial of one attempt is no spike. */
export const LEAST_EVENTS = 10;
/** Thresholds that one script compares. */
const THRESHOLDS_A_RUN = 20;

type Name = keyof RateThresholds;

export interface Watched {
  readonly threshold: number;
  readonly windowS: number;
}

/**
 * The different thresholds, with their windows, of the active subscriptions of a tenant and the operators that select an event. If none
 * does, the protocol's defaults, because the event is in the log all the same.
 */
export function watchedBy(
  subscriptions: SubscriptionCache,
  tenantId: string,
  eventType: string,
  threshold: Name,
  window: Name = 'rate_window_seconds',
): readonly Watched[] {
  const targets = subscriptions.selecting(tenantId, eventType).map(({ rates }) => rates);
  const rates = targets.length === 0 ? [DEFAULT_RATES] : targets;
  const watched = rates.map((asked) => ({ threshold: asked[threshold], windowS: asked[window] }));
  return [...new Map(watched.map((one) => [`${one.threshold} ${one.windowS}`, one])).values()];
}

/** Parts that one script can take. */
export function runsOf<T>(all: readonly T[]): (readonly T[])[] {
  return Array.from({ length: Math.ceil(all.length / THRESHOLDS_A_RUN) }, (_, run) =>
    all.slice(run * THRESHOLDS_A_RUN, (run + 1) * THRESHOLDS_A_RUN),
  );
}
