/** How dangerous an action is, least first: ActionRiskClass of cycles-action-kinds-v0.1.26. */
export const RISK_CLASSES = [
  'read_only',
  'local_mutation',
  'side_effect',
  'external_side_effect',
  'high_risk',
] as const;
export type RiskClass = (typeof RISK_CLASSES)[number];

/** ActionQuotaWindow of cycles-action-kinds-v0.1.26. */
export const QUOTA_WINDOWS = [
  'per_run',
  'per_minute_tumbling',
  'per_hour_tumbling',
  'per_day_tumbling',
  'per_tenant_per_day',
] as const;
export type QuotaWindow = (typeof QUOTA_WINDOWS)[number];

/** Stands for the action kind where a quota counts a whole risk class. */
export const RISK_COUNTER = '__risk__';
