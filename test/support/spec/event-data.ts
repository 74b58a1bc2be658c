/**
 * Which EventData schema of the governance document describes the payload of an event type, according to the
 * schemas' descriptions.
 */
const BY_TYPE: Readonly<Record<string, string>> = {
  'budget.threshold_crossed': 'EventDataBudgetThreshold',
  'budget.exhausted': 'EventDataBudgetThreshold',
  'budget.over_limit_entered': 'EventDataBudgetOverLimit',
  'budget.over_limit_exited': 'EventDataBudgetOverLimit',
  'budget.debt_incurred': 'EventDataBudgetDebtIncurred',
  'budget.burn_rate_anomaly': 'EventDataBurnRateAnomaly',
  'reservation.denied': 'EventDataReservationDenied',
  'reservation.expired': 'EventDataReservationExpired',
  'reservation.observed_denied': 'EventDataObservedDenied',
  'reservation.observed_allowed': 'EventDataObservedAllowed',
  'reservation.commit_overage': 'EventDataCommitOverage',
  'quota.threshold_approaching': 'EventDataQuotaThresholdApproaching',
  'quota.counter_reset': 'EventDataQuotaCounterReset',
};
const BY_CATEGORY: Readonly<Record<string, string>> = {
  budget: 'EventDataBudgetLifecycle',
  tenant: 'EventDataTenantLifecycle',
  webhook: 'EventDataWebhookLifecycle',
  api_key: 'EventDataApiKey',
  policy: 'EventDataPolicy',
  system: 'EventDataSystem',
};

/** The schema's name, or undefined for custom event types. */
export function eventDataSchemaOf(eventType: string): string | undefined {
  if (eventType.endsWith('_via_tenant_cascade')) {
    return 'EventDataTenantCascade';
  }
  return eventType.endsWith('_rate_spike')
    ? 'EventDataRateSpike'
    : (BY_TYPE[eventType] ?? BY_CATEGORY[eventType.split('.', 1)[0] as string]);
}
