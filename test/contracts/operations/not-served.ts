/** Operations of the protocol that Holdfast does not serve. Whoever adds one takes it from here and gives it a row. */
export const NOT_SERVED = {
  evidence: ['getEvidence', 'getEvidenceJwks'],
  operators: ['bulkActionTenants', 'bulkActionBudgets', 'getAdminOverview'],
} as const;
