/** A subscription's retry policy, with what its owner left out filled in. */
export interface RetryPolicy {
  readonly maxRetries: number;
  readonly initialDelayMs: number;
  readonly multiplier: number;
  readonly maxDelayMs: number;
}

/** Retries of deliveries that failed together are spread over this share of their delay, always later and never earlier. */
const JITTER_SHARE = 0.1;

/**
 * How long to wait before the next attempt, in ms: initial * multiplier ^ (retries so far), at most the policy's maximum, and a little
 * more, so that an endpoint which comes back is not met by all its deliveries in one moment. What the endpoint itself asked for is kept.
 * @param attempts those made so far, 1 or more
 * @param askedMs  from the endpoint's Retry-After, already bounded
 */
export function retryDelayMs(policy: RetryPolicy, attempts: number, askedMs = 0): number {
  const delayMs = Math.min(policy.initialDelayMs * policy.multiplier ** (attempts - 1), policy.maxDelayMs);
  const spreadMs = Math.max(delayMs, askedMs) * JITTER_SHARE * Math.random();
  return Math.round(Math.max(delayMs, askedMs) + spreadMs);
}
