import { EVENT_CATEGORIES, UNITS } from '../ledger/index.js';
import {
  bulkResponse,
  COUNT,
  FLAG,
  FREE,
  INT64,
  kept,
  list,
  mapOf,
  object,
  oneOf,
  PAGE,
  ref,
  TEXT,
  TIME,
  TRACE_ID,
} from './parts.js';

const STATUS = oneOf('ACTIVE', 'PAUSED', 'DISABLED');
const NUMBER = { type: 'number', format: 'double' } as const;

/** The answers about webhook subscriptions: cycles-governance-admin-v0.1.25. */
export const WEBHOOK_SCHEMAS = {
  WebhookSubscription: object(
    {
      subscription_id: TEXT,
      tenant_id: { type: 'string', description: "The owner; __system__ for the operators' own." },
      url: { type: 'string', format: 'uri', maxLength: 2048 },
      event_types: list(TEXT),
      event_categories: list(kept(...EVENT_CATEGORIES)),
      status: STATUS,
      retry_policy: object({
        max_retries: COUNT,
        initial_delay_ms: COUNT,
        backoff_multiplier: NUMBER,
        max_delay_ms: COUNT,
      }),
      disable_after_failures: { type: 'integer', minimum: 1 },
      consecutive_failures: COUNT,
      created_at: TIME,
      updated_at: TIME,
    },
    {
      name: { type: 'string', maxLength: 256 },
      description: { type: 'string', maxLength: 1024 },
      scope_filter: TEXT,
      thresholds: object(
        {},
        {
          budget_utilization: list(NUMBER),
          burn_rate_multiplier: NUMBER,
          burn_rate_window_seconds: COUNT,
          denial_rate_threshold: NUMBER,
          expiry_rate_threshold: NUMBER,
          auth_failure_rate_threshold: NUMBER,
          rate_window_seconds: COUNT,
        },
      ),
      headers: { ...mapOf(TEXT), description: 'The names; values are masked.' },
      last_triggered_at: TIME,
      last_success_at: TIME,
      last_failure_at: TIME,
      metadata: FREE,
    },
  ),
  WebhookCreateResponse: object({
    subscription: ref('WebhookSubscription'),
    signing_secret: { type: 'string', description: 'Shown this once; it is kept encrypted.' },
  }),
  WebhookListResponse: object({ subscriptions: list(ref('WebhookSubscription')), has_more: FLAG }, PAGE),
  WebhookSecurityConfig: object({
    blocked_cidr_ranges: list(TEXT),
    allowed_url_patterns: list(TEXT),
    allow_http: FLAG,
  }),
  WebhookOptions: object(
    {
      subscription_id: TEXT,
      end_on_gone: {
        ...FLAG,
        description: 'Whether an answer of 410 Gone disables the subscription at once.',
      },
      events_per_request: {
        ...INT64,
        description:
          'How many consecutive events a request carries at most. With more than 1, its body is {"events":[...]}.',
      },
      thresholds_once_a_period: {
        ...FLAG,
        description:
          'Whether a threshold is told only when a budget reaches it for the first time in its period, and not when its use falls below it.',
      },
      payload_filter: {
        ...object({}, { unit: oneOf(...UNITS), action_kind: TEXT, state: TEXT }),
        description: 'What members of the payload must equal.',
      },
      used_amounts: {
        ...list(object({ unit: oneOf(...UNITS), amount: INT64 })),
        description: 'Amounts whose crossing by spent + reserved is an event budget.threshold_crossed.',
      },
    },
    {
      stopped: {
        ...object({
          reason: kept('consecutive_failures_exceeded_threshold', 'endpoint_gone', 'tenant_closed', 'paused'),
          at: TIME,
          by: { ...TEXT, description: 'The key, operator or session, or `system`.' },
        }),
        description:
          'Why a subscription that is not active was stopped. Absent if that was before version 0.8.',
      },
    },
  ),
  WebhookBulkActionResponse: bulkResponse('PAUSE', 'RESUME', 'DELETE'),
} as const;

const HTTP_STATUS = { type: 'integer' } as const;

const DELIVERY = {
  delivery_id: {
    type: 'string',
    pattern: '^dlv_[0-9a-f]{16,29}_[0-9a-f]{2}[0-9A-Za-z]{16}(?:_[0-9A-Za-z]+)?$',
  },
  subscription_id: TEXT,
  event_id: TEXT,
  event_type: TEXT,
  status: oneOf('PENDING', 'SUCCESS', 'FAILED', 'RETRYING'),
  attempted_at: TIME,
  attempts: COUNT,
} as const;

const OF_ATTEMPTS = {
  completed_at: TIME,
  response_status: HTTP_STATUS,
  response_time_ms: COUNT,
  error_message: TEXT,
  next_retry_at: TIME,
  trace_id: TRACE_ID,
  trace_flags: { type: 'string', pattern: '^[0-9a-f]{2}$' },
} as const;

/** The answers about webhook deliveries: cycles-governance-admin-v0.1.25. */
export const DELIVERY_SCHEMAS = {
  WebhookDelivery: object(DELIVERY, OF_ATTEMPTS),
  WebhookDeliveryDetails: object(
    {
      ...DELIVERY,
      attempts_made: {
        ...list(ref('WebhookDeliveryAttempt')),
        description: 'Oldest first.',
      },
    },
    {
      ...OF_ATTEMPTS,
      answer_text: {
        ...TEXT,
        description:
          "How the endpoint's answer to the last attempt begins, at most 2 KiB, if it was not 2xx. Absent if it was empty, or is not kept any more.",
      },
      request: {
        ...ref('WebhookDeliveryRequest'),
        description: 'What each attempt sends; absent if the event has left the log.',
      },
    },
  ),
  EventDeliveryList: object({
    deliveries: {
      ...list(object({ ...DELIVERY, url: TEXT }, OF_ATTEMPTS)),
      description: 'Those of the event itself; replays of it are not looked for.',
    },
    subscriptions_looked_at: {
      ...COUNT,
      description:
        'All that the tenant of the event and operators have now. One that was deleted is not among them.',
    },
    still_kept: {
      ...FLAG,
      description:
        'Whether deliveries of so old an event are still kept. If not, a missing one says nothing.',
    },
  }),
  WebhookDeliveryAttempt: object(
    {
      attempted_at: TIME,
      response_time_ms: { ...COUNT, description: 'Until the answer came or the attempt failed.' },
    },
    { response_status: HTTP_STATUS, error_message: TEXT },
  ),
  WebhookDeliveryRequest: object(
    {
      headers: {
        ...mapOf(TEXT),
        description:
          'Without the own headers of the subscription, and without what each attempt computes: signatures, timestamp and span.',
      },
      body: { type: 'string', description: 'The exact text that is signed and sent.' },
    },
    { url: { type: 'string', description: 'Where the subscription sends now; absent if it was deleted.' } },
  ),
  WebhookResendResponse: object({
    delivery_id: { type: 'string', description: 'The new delivery, which waits for its first attempt.' },
  }),
  WebhookDeliveryListResponse: object({ deliveries: list(ref('WebhookDelivery')), has_more: FLAG }, PAGE),
  WebhookTestResponse: object(
    { success: FLAG },
    { response_status: HTTP_STATUS, response_time_ms: COUNT, error_message: TEXT, event_id: TEXT },
  ),
  WebhookReplayResponse: object({ replay_id: TEXT, events_queued: COUNT }),
} as const;
