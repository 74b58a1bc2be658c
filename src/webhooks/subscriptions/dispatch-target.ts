import { type CyclesEvent, TENANT_EVENT_CATEGORIES } from '../../events/index.js';
import { SYSTEM_OWNER } from '../../redis/index.js';
import { fieldOf, type Fields } from '../../wire/index.js';
import { matchesGlob } from '../target-policy/address-rules.js';
import type { SubscriptionStatus } from './subscription.dto.js';
import { listOf, retryPolicyOf, statusOf } from './subscription.js';

/** A subscription as deliveries need it. Secrets and headers stay sealed. */
export interface DispatchTarget {
  readonly subscriptionId: string;
  /** A tenant, or `__system__`. */
  readonly owner: string;
  readonly status: SubscriptionStatus;
  readonly url: string;
  /** Sealed JSON; undefined without custom headers. */
  readonly headers: string | undefined;
  /** Sealed: the current secret, then the previous one while it is valid. */
  readonly secrets: readonly string[];
  readonly retry: {
    readonly maxRetries: number;
    readonly initialDelayMs: number;
    readonly multiplier: number;
    readonly maxDelayMs: number;
  };
  readonly disableAfterFailures: number;
  readonly createdAtMs: number;
  readonly eventTypes: ReadonlySet<string>;
  readonly eventCategories: ReadonlySet<string>;
  readonly scopeFilter: string | undefined;
  /** The utilization thresholds for which it receives budget.threshold_crossed. */
  readonly utilizations: readonly number[];
}

const DEFAULT_UTILIZATIONS = [0.8, 0.95, 1];
const TENANT_CATEGORIES: ReadonlySet<string> = new Set(TENANT_EVENT_CATEGORIES);

/** @param nowMs the time of Redis, which decides whether the previous secret is still valid. @throws Error if the record is corrupt. */
export function targetOf(fields: Fields, subscriptionId: string, nowMs: number): DispatchTarget {
  const {
    max_retries: maxRetries,
    initial_delay_ms: initialDelayMs,
    backoff_multiplier: multiplier,
    max_delay_ms: maxDelayMs,
  } = retryPolicyOf(fieldOf(fields, 'rp'));
  const previous = fields.get('sp');
  const utilizations = listOf(fields.get('tu') ?? '').map(Number);
  return {
    subscriptionId,
    owner: fieldOf(fields, 'tn'),
    status: statusOf(fields, subscriptionId),
    url: fieldOf(fields, 'ur'),
    headers: fields.get('hd'),
    secrets: [
      fieldOf(fields, 'se'),
      ...(previous !== undefined && Number(fields.get('su')) > nowMs ? [previous] : []),
    ],
    retry: { maxRetries, initialDelayMs, multiplier, maxDelayMs },
    disableAfterFailures: Number(fieldOf(fields, 'df')),
    createdAtMs: Number(fieldOf(fields, 'ca')),
    eventTypes: new Set(listOf(fieldOf(fields, 'et'))),
    eventCategories: new Set(listOf(fieldOf(fields, 'ec'))),
    scopeFilter: fields.get('sf'),
    utilizations: utilizations.length === 0 ? DEFAULT_UTILIZATIONS : utilizations,
  };
}

/**
 * Whether a subscription receives an event. Types and categories are additive. A tenant's subscription only receives its own tenant's
 * events, and none of the operators' categories, whatever its stored selectors say. A scope filter excludes events without a scope.
 */
export function matches(target: DispatchTarget, event: CyclesEvent): boolean {
  return (
    (target.eventTypes.has(event.event_type) || target.eventCategories.has(event.category)) &&
    (target.owner === SYSTEM_OWNER ||
      (event.tenant_id === target.owner && TENANT_CATEGORIES.has(event.category))) &&
    (target.scopeFilter === undefined ||
      (event.scope !== undefined && matchesGlob(event.scope, target.scopeFilter))) &&
    (event.event_type !== 'budget.threshold_crossed' ||
      target.utilizations.includes(Number(event.data['threshold'])))
  );
}
