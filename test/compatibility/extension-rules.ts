import type { Rules } from './rule.js';

/** The rules for servers in the three documents of v0.1.26, in our words, and where they stand there. */
export const EXTENSION_RULES = {
  'evaluation order': {
    rule: 'A request is judged by the tenant, then the lists of action kinds, then quotas, then budgets; only the governing policy counts',
    place: 'RESERVATION EVALUATION ORDER; MULTI-POLICY SEMANTICS',
  },
  'action kind lists': {
    rule: 'A kind on the denylist, or not on the allowlist, is denied and changes nothing',
    place: 'RESERVATION EVALUATION ORDER, STEP 1; PolicyExtension',
  },
  'one list of kinds': {
    rule: 'A policy with both lists is refused; clearing one while setting the other is not. Wildcards and risk classes are no kinds',
    place: 'PolicyExtension; PolicyPatchExtension',
  },
  'policy rule lists': {
    rule: 'The four lists are stored and always returned, a PATCH replaces them, and `policy.updated` names them',
    place: 'DEFAULT VALUE SEMANTICS; PolicyPatchExtension',
  },
  'deny detail': {
    rule: 'A DENY has a `deny_detail` that mirrors its reason, and so have the `details` of a refusal and `reservation.denied`',
    place:
      'DenyDetail; DecisionResponseExtension; ReservationCreateResponseExtension; ErrorResponseExtension',
    note: 'In answers of decide and dry runs only for those who use the extensions; see [deliberate differences](#deliberate-differences-and-choices).',
  },
} as const satisfies Rules;
