import { QUOTA_WINDOWS, RISK_CLASSES } from '../../ledger/index.js';
import { FLAG, list, object, oneOf, PAGE, ref, TEXT, TIME } from './parts.js';

const COUNT64 = { type: 'integer', format: 'int64', minimum: 0 } as const;
const KIND = { type: 'string', maxLength: 64 } as const;

/** The answers about action kinds: cycles-action-kinds-v0.1.26. */
export const ACTION_SCHEMAS = {
  ActionKind: object(
    { kind: KIND, risk_class: oneOf(...RISK_CLASSES) },
    {
      policy_key_spec: object(
        {},
        { host: FLAG, recipient_domain: FLAG, resource_type: TEXT, path_prefix: FLAG },
      ),
      description: { type: 'string', maxLength: 512 },
      mcp_tool_prefixes: list({ type: 'string', maxLength: 128 }),
    },
  ),
  ActionQuotaState: object(
    {
      action_kind: { ...KIND, description: '`__risk__` for the counter of a risk class.' },
      scope: TEXT,
      scope_path: TEXT,
      window: oneOf(...QUOTA_WINDOWS),
      window_key: { ...TEXT, description: 'The minute, hour or day in UTC, or the run.' },
      used: COUNT64,
      limit: { type: 'integer', format: 'int64', minimum: 1 },
      remaining: COUNT64,
      expires_at: TIME,
    },
    { risk_class: oneOf(...RISK_CLASSES), policy_id: TEXT, last_incremented_at: TIME },
  ),
  ActionQuotaCounterListResponse: object({ counters: list(ref('ActionQuotaState')), has_more: FLAG }, PAGE),
  ActionQuotaCounterResetResponse: object({
    counter: ref('ActionQuotaState'),
    previous_used: { ...COUNT64, description: 'What it had counted before.' },
  }),
  ActionKindRegistry: object({ version: TEXT, kinds: list(ref('ActionKind')), has_more: FLAG }, PAGE),
} as const;
