import { OPERATOR_ROLES } from '../auth/index.js';
import { COUNT, FLAG, list, object, oneOf, PAGE, ref, TEXT, TIME, TRACE_ID } from './parts.js';

const ALWAYS = {
  name: { ...TEXT, description: 'Audit rows and events name the operator `operator:<name>`.' },
  role: oneOf(...OPERATOR_ROLES),
  tenants: {
    ...list(TEXT),
    description:
      'Those that it is confined to: ids, or how they begin, as in `team-*`; `*` for the whole deployment.',
  },
  status: oneOf('ACTIVE', 'REVOKED', 'EXPIRED'),
  key_prefix: { ...TEXT, description: 'How the key begins, to tell keys apart.' },
  created_at: TIME,
};
const SOMETIMES = {
  expires_at: { ...TIME, description: 'Absent if the key does not expire.' },
  rotated_at: TIME,
  previous_key_until: {
    ...TIME,
    description: 'Until when the key before the last rotation works; absent once it does not.',
  },
  revoked_at: TIME,
  revoked_reason: TEXT,
};

/** The answers of `/ops/operators` and of the request log. */
export const OPERATOR_SCHEMAS = {
  Operator: object(ALWAYS, SOMETIMES),
  OperatorWithKey: object(
    { ...ALWAYS, key_secret: { ...TEXT, description: 'Shown this once; only its hash is kept.' } },
    SOMETIMES,
  ),
  OperatorListResponse: object({ operators: list(ref('Operator')), has_more: FLAG }, PAGE),
  RefusedRequest: object(
    {
      log_id: TEXT,
      timestamp: TIME,
      tenant_id: { ...TEXT, description: 'The tenant of the key, or `__admin__` or `__unauth__`.' },
      operation: { ...TEXT, description: 'What was asked for, or `summary:refused`.' },
      status: { type: 'integer' },
      error_code: TEXT,
    },
    {
      message: TEXT,
      scope: { ...TEXT, description: 'The scope that refused.' },
      key_id: TEXT,
      resource_id: TEXT,
      request_id: TEXT,
      trace_id: TRACE_ID,
      source_ip: TEXT,
      user_agent: TEXT,
      not_listed: { ...COUNT, description: 'Of a summary: refusals of the tenant that have no row.' },
      window_ms: { ...COUNT, description: 'Of a summary: how long the time before it was.' },
    },
  ),
  RefusedRequestListResponse: object({ requests: list(ref('RefusedRequest')), has_more: FLAG }, PAGE),
};
