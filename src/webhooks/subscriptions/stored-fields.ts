import { stringifyJson } from '../../http/index.js';
import { DEFAULT_RETRY_POLICY } from './subscription.js';
import type {
  RetryPolicyDto,
  SubscriptionCreateDto,
  SubscriptionUpdateDto,
  ThresholdsDto,
} from './subscription.dto.js';

export type FieldPair = readonly [field: string, value: string];

/** Digits after the point that tell utilizations apart. */
const UTILIZATION_DIGITS = 9;

/**
 * What a request sets, by the short names of lua/lib/webhook.lua. An empty value takes away what was set. Selectors, URL,
 * headers and the secret are not among them: each needs more than writing it down.
 */
export function storedFields(request: SubscriptionCreateDto | SubscriptionUpdateDto): FieldPair[] {
  const {
    name,
    description,
    scope_filter: scopeFilter,
    thresholds,
    retry_policy: retryPolicy,
    disable_after_failures: limit,
    metadata,
  } = request;
  return [
    ...pair('nm', name, (text) => text),
    ...pair('ds', description, (text) => text),
    ...pair('sf', scopeFilter, (text) => text.toLowerCase()),
    ...(thresholds === undefined ? [] : thresholdFields(thresholds)),
    ...pair('rp', retryPolicy, retryPolicyText),
    ...pair('df', limit, String),
    ...pair('md', metadata, stringifyJson),
  ];
}

/** The settings of a request that has none. */
export function defaultFields(): FieldPair[] {
  return [
    ['rp', retryPolicyText({})],
    ['df', '10'],
  ];
}

/** A selector list as it is stored: each item once. */
export const listText = (items: readonly string[]): string => [...new Set(items)].join(',');

function pair<T>(field: string, value: T | null | undefined, write: (value: T) => string): FieldPair[] {
  return value === undefined ? [] : [[field, value === null ? '' : write(value)]];
}

function retryPolicyText(policy: RetryPolicyDto): string {
  const {
    max_retries: retries,
    initial_delay_ms: initial,
    backoff_multiplier: multiplier,
    max_delay_ms: longest,
  } = { ...DEFAULT_RETRY_POLICY, ...policy };
  return [retries, initial, multiplier, longest].join(',');
}

function thresholdFields(thresholds: ThresholdsDto): FieldPair[] {
  const utilizations = [...new Set((thresholds.budget_utilization ?? []).map(utilizationText))];
  return [
    ['th', Object.keys(thresholds).length === 0 ? '' : stringifyJson(thresholds)],
    ['tu', utilizations.join(',')],
  ];
}

/** Without exponent and trailing zeros, so that scripts compare and print the same. */
function utilizationText(value: number): string {
  return value.toFixed(UTILIZATION_DIGITS).replace(/\.?0+$/, '');
}
