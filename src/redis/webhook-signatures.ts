import type { ScriptSignature } from './script-signatures.js';

/** The scripts of webhook subscriptions. */
export const WEBHOOK_SIGNATURES = {
  create_webhook: {
    keys: ['webhook', 'webhook_index', 'tenant'],
    args: [
      'tenant_id', 'subscription_id', 'event_types', 'event_categories', 'operation', 'actor', 'key_id', 'request_id', 'trace',
      'max_webhooks',
    ],
    rest: true,
    flags: [],
  },
  update_webhook: {
    keys: ['webhook'],
    args: [
      'tenant_id', 'subscription_id', 'status', 'known_secret', 'known_headers', 'rotation_ms', 'operation', 'actor', 'key_id',
      'request_id', 'trace',
    ],
    rest: true,
    flags: [],
  },
  reseal_webhook: {
    keys: ['webhook', 'webhook_revision'],
    args: [],
    rest: true,
    flags: [],
  },
  delete_webhook: {
    keys: ['webhook'],
    args: ['tenant_id', 'subscription_id', 'operation', 'actor', 'key_id', 'request_id', 'trace'],
    flags: ['allow-oom'],
  },
  list_webhooks: {
    keys: ['tenant_index'],
    args: ['tenant_id', 'tenant', 'after', 'limit'],
    flags: ['no-writes'],
  },
  webhook_targets: {
    keys: ['webhook_revision'],
    args: [],
    rest: true,
    flags: ['no-writes'],
  },
  find_webhook: {
    keys: ['webhook', 'webhook_revision'],
    args: ['known', 'whole'],
    flags: ['no-writes'],
  },
  begin_bulk_action: {
    keys: ['bulk'],
    args: ['fingerprint', 'keep_ms', 'correlation_id', 'request_id', 'trace', 'ids'],
    flags: [],
  },
  bulk_webhook: {
    keys: ['webhook'],
    args: ['subscription_id', 'action', 'keep_ms', 'correlation_id', 'actor', 'key_id', 'request_id', 'trace'],
    flags: ['allow-oom'],
  },
  end_bulk_action: {
    keys: ['bulk'],
    args: ['response', 'operation', 'resource_type', 'correlation_id', 'actor', 'key_id', 'request_id', 'trace'],
    rest: true,
    flags: ['allow-oom'],
  },
  set_webhook_security: {
    keys: ['webhook_security'],
    args: ['config', 'actor', 'key_id', 'request_id', 'trace'],
    flags: [],
  },
} as const satisfies Record<string, ScriptSignature>;
