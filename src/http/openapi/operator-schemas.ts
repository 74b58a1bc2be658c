import { OPERATOR_ROLES } from '../../auth/index.js';
import { FLAG, list, object, oneOf, PAGE, ref, TEXT, TIME } from './parts.js';

const ALWAYS = {
  name: { ...TEXT, description: 'Audit rows and events name the operator `operator:<name>`.' },
  role: oneOf(...OPERATOR_ROLES),
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

/** The answers of `/ops/operators`. */
export const OPERATOR_SCHEMAS = {
  Operator: object(ALWAYS, SOMETIMES),
  OperatorWithKey: object(
    { ...ALWAYS, key_secret: { ...TEXT, description: 'Shown this once; only its hash is kept.' } },
    SOMETIMES,
  ),
  OperatorListResponse: object({ operators: list(ref('Operator')), has_more: FLAG }, PAGE),
};
