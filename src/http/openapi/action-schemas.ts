import { RISK_CLASSES } from '../../ledger/index.js';
import { FLAG, list, object, oneOf, PAGE, ref, TEXT } from './parts.js';

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
  ActionKindRegistry: object({ version: TEXT, kinds: list(ref('ActionKind')), has_more: FLAG }, PAGE),
} as const;
