import type { ScriptSignature } from './script-signatures.js';

/** The scripts that carry events to their subscribers. */
export const DELIVERY_SIGNATURES = {
  dispatch_page: {
    keys: ['lease', 'event_log'],
    args: ['token', 'lease_ms', 'take', 'after', 'limit'],
    flags: ['allow-oom'],
  },
  skip_events: {
    keys: ['lease', 'event_log'],
    args: ['token', 'up_to', 'entries_added'],
    flags: ['allow-oom'],
  },
  queue_deliveries: {
    keys: ['lease', 'event_log'],
    args: ['token', 'retention_ms', 'event_count'],
    rest: true,
    flags: ['allow-oom'],
  },
  read_deliveries: {
    keys: ['event_log'],
    args: [],
    rest: true,
    flags: ['no-writes'],
  },
  settle_delivery: {
    keys: ['delivery'],
    args: [
      'ref',
      'lane',
      'outcome',
      'attempted',
      'duration_ms',
      'response_status',
      'message',
      'retry_in_ms',
      'announce',
      'reason',
      'subscription_id',
      'delivery_id',
      'event_id',
      'trace',
    ],
    flags: ['allow-oom'],
  },
  record_delivery_outcome: {
    keys: ['subscription'],
    args: ['subscription_id', 'outcome', 'delivery_id', 'trace'],
    flags: ['allow-oom'],
  },
} as const satisfies Record<string, ScriptSignature>;
