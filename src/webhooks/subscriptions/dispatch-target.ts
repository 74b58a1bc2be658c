import { type CyclesEvent } from '../../events/index.js';
import { type EventCategory, TENANT_EVENT_CATEGORIES } from '../../ledger/index.js';
import { SYSTEM_OWNER, USUAL_MARKS } from '../../redis/index.js';
import { fieldOf, type Fields, readJson } from '../../wire/index.js';
import { matchesGlob } from '../target-policy/address-rules.js';
import type { SubscriptionStatus } from './subscription.dto.js';
import type { PayloadFilterDto } from './subscription-options.dto.js';
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
  /** What it asks for by the other members of WebhookThresholdConfig, or their defaults. */
  readonly rates: RateThresholds;
  /** The amounts for which it receives budget.threshold_crossed, as `UNIT:amount`. */
  readonly usedAmounts: readonly string[];
  /** Whether a threshold is told only when a budget reaches it for the first time in its period. */
  readonly oncePerPeriod: boolean;
  /** Whether an answer of 410 ends it. */
  readonly endsOnGone: boolean;
  /** How many events a request carries at most. With 1, its body is the event. */
  readonly eventsPerRequest: number;
  /** What members of an event's payload must equal. */
  readonly payloadFilter: PayloadFilterDto;
}

/** The members of WebhookThresholdConfig about rates. */
export interface RateThresholds {
  readonly denial_rate_threshold: number;
  readonly expiry_rate_threshold: number;
  readonly auth_failure_rate_threshold: number;
  readonly rate_window_seconds: number;
  readonly burn_rate_multiplier: number;
  readonly burn_rate_window_seconds: number;
}

/** The defaults of cycles-governance-admin-v0.1.25. */
export const DEFAULT_RATES: RateThresholds = {
  denial_rate_threshold: 0.1,
  expiry_rate_threshold: 0.05,
  auth_failure_rate_threshold: 0.1,
  rate_window_seconds: 300,
  burn_rate_multiplier: 3,
  burn_rate_window_seconds: 300,
};

/** The threshold that each event about rates depends on, with the window and the member of `data` that repeats the threshold. */
const RATE_EVENTS: Readonly<Record<string, readonly [keyof RateThresholds, keyof RateThresholds]>> = {
  'reservation.denial_rate_spike': ['denial_rate_threshold', 'rate_window_seconds'],
  'reservation.expiry_rate_spike': ['expiry_rate_threshold', 'rate_window_seconds'],
  'api_key.auth_failure_rate_spike': ['auth_failure_rate_threshold', 'rate_window_seconds'],
};

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
    utilizations: utilizations.length === 0 ? USUAL_MARKS : utilizations,
    rates: ratesOf(fields.get('th')),
    usedAmounts: listOf(fields.get('ta') ?? ''),
    oncePerPeriod: fields.get('oc') === '1',
    endsOnGone: fields.get('eg') === '1',
    eventsPerRequest: Number(fields.get('er') ?? 1),
    payloadFilter: readJson(fields.get('pf') ?? '{}') as PayloadFilterDto,
  };
}

function ratesOf(text: string | undefined): RateThresholds {
  const given = readJson(text ?? '{}') as Readonly<Record<string, unknown>>;
  const rate = (name: keyof RateThresholds): number => Number(given[name] ?? DEFAULT_RATES[name]);
  return {
    denial_rate_threshold: rate('denial_rate_threshold'),
    expiry_rate_threshold: rate('expiry_rate_threshold'),
    auth_failure_rate_threshold: rate('auth_failure_rate_threshold'),
    rate_window_seconds: rate('rate_window_seconds'),
    burn_rate_multiplier: rate('burn_rate_multiplier'),
    burn_rate_window_seconds: rate('burn_rate_window_seconds'),
  };
}

/** Whether the selectors of a subscription name the type. They are additive. */
export function selects(target: DispatchTarget, eventType: string, category: EventCategory): boolean {
  return target.eventTypes.has(eventType) || target.eventCategories.has(category);
}

/** Whether an event about a rate was judged by the threshold and window that the subscription asks for. */
function hasItsRates({ rates }: DispatchTarget, { event_type: type, data }: CyclesEvent): boolean {
  if (type === 'budget.burn_rate_anomaly') {
    return (
      Number(data['multiplier']) >= rates.burn_rate_multiplier &&
      Number(data['window_seconds']) === rates.burn_rate_window_seconds
    );
  }
  const members = RATE_EVENTS[type];
  return (
    members === undefined ||
    (Number(data['threshold_rate']) === rates[members[0]] &&
      Number(data['window_seconds']) === rates[members[1]])
  );
}

/** Whether an event about a budget's use was judged by one of the thresholds that the subscription asks for. */
function hasItsThreshold(target: DispatchTarget, { event_type: type, data }: CyclesEvent): boolean {
  if (type !== 'budget.threshold_crossed') {
    return true;
  }
  if (target.oncePerPeriod && data['first_in_period'] !== true) {
    return false;
  }
  const { unit, threshold, threshold_amount: amount } = data as Readonly<Record<string, string | number>>;
  return amount === undefined
    ? target.utilizations.includes(Number(threshold))
    : target.usedAmounts.includes(`${unit}:${amount}`);
}

/** Where a payload has what a filter names: the kind of action by itself or as a part of the action, the state alone or in `new_state`. */
function filteredMembers(data: CyclesEvent['data']): Readonly<Record<keyof PayloadFilterDto, unknown>> {
  const { unit, action_kind: kind, action, new_status: status, new_state: state } = data;
  return {
    unit,
    action_kind: kind ?? (action as { readonly kind?: unknown } | undefined)?.kind,
    state: status ?? (state as { readonly status?: unknown } | undefined)?.status,
  };
}

function passesFilter({ payloadFilter }: DispatchTarget, { data }: CyclesEvent): boolean {
  const wanted = Object.entries(payloadFilter) as [keyof PayloadFilterDto, string][];
  if (wanted.length === 0) {
    return true;
  }
  const members = filteredMembers(data);
  return wanted.every(([name, value]) => members[name] === value);
}

/**
 * Whether a subscription receives an event. Types and categories are additive. A tenant's subscription only receives its own tenant's
 * events, and none of the operators' categories, whatever its stored selectors say. A filter on the scope or the payload excludes events
 * that do not have what it compares.
 */
export function matches(target: DispatchTarget, event: CyclesEvent): boolean {
  return (
    selects(target, event.event_type, event.category) &&
    (target.owner === SYSTEM_OWNER ||
      (event.tenant_id === target.owner && TENANT_CATEGORIES.has(event.category))) &&
    (target.scopeFilter === undefined ||
      (event.scope !== undefined && matchesGlob(event.scope, target.scopeFilter))) &&
    hasItsThreshold(target, event) &&
    hasItsRates(target, event) &&
    passesFilter(target, event)
  );
}
