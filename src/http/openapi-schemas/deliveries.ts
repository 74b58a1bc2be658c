import { COUNT, FLAG, list, object, oneOf, PAGE, ref, TEXT, TIME, TRACE_ID } from './parts.js';

const HTTP_STATUS = { type: 'integer' } as const;

/** The answers about webhook deliveries: cycles-governance-admin-v0.1.25. */
export const DELIVERY_SCHEMAS = {
  WebhookDelivery: object(
    {
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
    },
    {
      completed_at: TIME,
      response_status: HTTP_STATUS,
      response_time_ms: COUNT,
      error_message: TEXT,
      next_retry_at: TIME,
      trace_id: TRACE_ID,
      trace_flags: { type: 'string', pattern: '^[0-9a-f]{2}$' },
    },
  ),
  WebhookDeliveryListResponse: object({ deliveries: list(ref('WebhookDelivery')), has_more: FLAG }, PAGE),
  WebhookTestResponse: object(
    { success: FLAG },
    { response_status: HTTP_STATUS, response_time_ms: COUNT, error_message: TEXT, event_id: TEXT },
  ),
  WebhookReplayResponse: object({ replay_id: TEXT, events_queued: COUNT }),
} as const;
