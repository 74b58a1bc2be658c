import type { Answer } from '../../answers/index.js';
import { fieldOf, type Fields, readJson, stringifyJson, timeOf } from '../../wire/index.js';
import { MASK } from './headers.js';
import {
  type RetryPolicyDto,
  SUBSCRIPTION_STATUSES,
  type SubscriptionCreateDto,
  type SubscriptionStatus,
  type SubscriptionUpdateDto,
  type ThresholdsDto,
} from './subscription.dto.js';

/** WebhookRetryPolicy of cycles-governance-admin-v0.1.25. */
export type RetryPolicy = Answer<'WebhookSubscription'>['retry_policy'];

export const DEFAULT_RETRY_POLICY: RetryPolicy = {
  max_retries: 5,
  initial_delay_ms: 1000,
  backoff_multiplier: 2,
  max_delay_ms: 60_000,
};

/** WebhookSubscription of cycles-governance-admin-v0.1.25. It contains no secret, and only the names of headers. */
export type Subscription = Answer<'WebhookSubscription'>;

/** Reads a stored comma-separated list. */
export const listOf = (text: string): string[] => (text === '' ? [] : text.split(','));

/** @throws Error if the record is corrupt. */
export function statusOf(fields: Fields, subscriptionId: string): SubscriptionStatus {
  const status = SUBSCRIPTION_STATUSES.find((known) => known === fields.get('st'));
  if (status === undefined) {
    throw new Error(`corrupt webhook record ${subscriptionId}: its status is ${fields.get('st')}`);
  }
  return status;
}

export function retryPolicyOf(text: string): RetryPolicy {
  const [maxRetries, initialDelayMs, multiplier, maxDelayMs] = text.split(',').map(Number) as [
    number,
    number,
    number,
    number,
  ];
  return {
    max_retries: maxRetries,
    initial_delay_ms: initialDelayMs,
    backoff_multiplier: multiplier,
    max_delay_ms: maxDelayMs,
  };
}

/** @throws Error if the record is corrupt. */
export function subscriptionOf(fields: Fields, subscriptionId: string): Subscription {
  return {
    subscription_id: subscriptionId,
    tenant_id: fieldOf(fields, 'tn'),
    ...text(fields, 'nm', 'name'),
    ...subscriptionTexts(fields),
    url: fieldOf(fields, 'ur'),
    event_types: listOf(fieldOf(fields, 'et')),
    event_categories: listOf(fieldOf(fields, 'ec')),
    ...text(fields, 'sf', 'scope_filter'),
    ...maskedHeaders(fields),
    status: statusOf(fields, subscriptionId),
    retry_policy: retryPolicyOf(fieldOf(fields, 'rp')),
    disable_after_failures: Number(fieldOf(fields, 'df')),
    consecutive_failures: Number(fieldOf(fields, 'cf')),
    created_at: timeOf(fieldOf(fields, 'ca')),
    updated_at: timeOf(fieldOf(fields, 'ua')),
    ...time(fields, 'lt', 'last_triggered_at'),
    ...time(fields, 'ls', 'last_success_at'),
    ...time(fields, 'lf', 'last_failure_at'),
  };
}

/** The members that a list reads only for the rows of its page. @throws Error if the record is corrupt. */
export function subscriptionTexts(
  fields: Fields,
): Pick<Subscription, 'description' | 'thresholds' | 'metadata'> {
  return {
    ...text(fields, 'ds', 'description'),
    ...json(fields, 'th', 'thresholds'),
    ...json(fields, 'md', 'metadata'),
  };
}

type Member<Name extends string, T> = Partial<Record<Name, T>>;

function member<Name extends string, T>(
  fields: Fields,
  field: string,
  name: Name,
  read: (text: string) => T,
): Member<Name, T> {
  const stored = fields.get(field);
  return stored === undefined ? {} : ({ [name]: read(stored) } as Member<Name, T>);
}

const text = <Name extends string>(fields: Fields, field: string, name: Name): Member<Name, string> =>
  member(fields, field, name, (value) => value);
const time = <Name extends string>(fields: Fields, field: string, name: Name): Member<Name, string> =>
  member(fields, field, name, timeOf);
const json = <Name extends 'thresholds' | 'metadata'>(
  fields: Fields,
  field: string,
  name: Name,
): Member<Name, NonNullable<Subscription[Name]>> =>
  member(fields, field, name, (stored) => readJson(stored) as NonNullable<Subscription[Name]>);

function maskedHeaders(fields: Fields): { headers?: Record<string, string> } {
  const names = listOf(fields.get('hn') ?? '');
  return names.length === 0 ? {} : { headers: Object.fromEntries(names.map((name) => [name, MASK])) };
}

export type FieldPair = readonly [field: string, value: string];

/** Decimal places to which utilizations are stored and compared. */
const UTILIZATION_DIGITS = 9;

/**
 * The settings of a request, under the field names of lua/lib/webhook_record.lua. An empty value removes a setting. Selectors, URL, headers
 * and secret are not included, because each needs checks or sealing first.
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

/** The defaults of a new subscription. */
export function defaultFields(): FieldPair[] {
  return [
    ['rp', retryPolicyText({})],
    ['df', '10'],
  ];
}

/** Writes a selector list as it is stored, without repeated items. */
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

/** Without exponent and trailing zeros, so that equal values are equal strings in the scripts. */
function utilizationText(value: number): string {
  return value.toFixed(UTILIZATION_DIGITS).replace(/\.?0+$/, '');
}
