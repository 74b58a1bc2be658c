/** Event types of the protocol that Holdfast does not emit, with the reason. */
export const UNTOLD_EVENTS: Readonly<Record<string, string>> = {
  'budget.closed':
    'No operation closes a single budget; closing its tenant emits `budget.closed_via_tenant_cascade`.',
  'policy.deleted': 'The protocol has no operation that deletes a policy.',
  'system.webhook_test': 'Only sent by the test of a subscription; the protocol keeps it out of the log.',
};
