import type { ScriptSignature } from './script-signatures.js';

/** The scripts that list deliveries and repeat them. */
export const REPLAY_SIGNATURES = {
  list_deliveries: {
    keys: ['delivery_index'],
    args: ['from_ms', 'to_ms', 'after_ms', 'after_ref', 'status', 'examine', 'limit'],
    flags: ['no-writes'],
  },
  start_replay: {
    keys: ['webhook', 'replay'],
    args: ['tenant_id', 'replay_id', 'lease_ms', 'known_done'],
    flags: [],
  },
  replay_events: {
    keys: ['event_log'],
    args: ['subscription_id', 'replay_id', 'retention_ms'],
    rest: true,
    flags: [],
  },
  finish_replay: {
    keys: ['webhook', 'replay'],
    args: [
      'subscription_id',
      'tenant_id',
      'replay_id',
      'waiting',
      'waiting_ms',
      'actor',
      'key_id',
      'request_id',
      'trace',
      'events_queued',
    ],
    rest: true,
    flags: ['allow-oom'],
  },
} as const satisfies Record<string, ScriptSignature>;
