import type { ScriptSignature } from './script-signatures.js';

/** The scripts that read and keep the event log and the audit log, and that tell what only time brings about. */
export const EVENT_SIGNATURES = {
  list_events: {
    keys: ['event_log', 'walked'],
    args: ['direction', 'start', 'stop', 'examine', 'limit'],
    rest: true,
    flags: ['no-writes'],
  },
  expire_api_keys: {
    keys: ['key_expiries'],
    args: ['limit'],
    flags: ['allow-oom'],
  },
  tell_store_outage: {
    keys: ['event_log', 'outage'],
    args: ['outage_ms'],
    flags: ['allow-oom'],
  },
  trim_event_log: {
    keys: ['event_log'],
    args: ['retention_ms', 'unread_ms', 'limit'],
    flags: ['allow-oom'],
  },
  append_audit_rows: {
    keys: ['log'],
    args: ['log_name', 'most'],
    rest: true,
    flags: [],
  },
  list_audit_log: {
    keys: ['audit_log', 'walked'],
    args: ['direction', 'start', 'stop', 'examine', 'limit', 'bytes', 'digest'],
    rest: true,
    flags: ['no-writes'],
  },
  trim_audit_log: {
    keys: ['audit_log'],
    args: ['log_name', 'retention_ms', 'limit'],
    flags: ['allow-oom'],
  },
} as const satisfies Record<string, ScriptSignature>;
