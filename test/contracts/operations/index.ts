import { ACTION_KIND_ROWS } from './action-kinds.js';
import { ACTION_QUOTA_ROWS } from './action-quotas.js';
import { API_KEY_ROWS } from './api-keys.js';
import { AUDIT_LOG_ROWS } from './audit-log.js';
import { BALANCE_ROWS } from './balances.js';
import { BUDGET_ROWS } from './budgets.js';
import { DECISION_AND_EVENT_ROWS } from './decisions-and-events.js';
import { DELIVERY_ROWS } from './deliveries.js';
import { EVIDENCE_ROWS } from './evidence.js';
import { EVENT_LOG_ROWS } from './event-log.js';
import { POLICY_ROWS } from './policies.js';
import { RESERVATION_ROWS } from './reservations.js';
import type { OperationRow } from './table.js';
import { TENANT_ROWS } from './tenants.js';
import { WEBHOOK_ROWS } from './webhooks.js';

/** Every served operation; the rows are in the files next to this one. A new operation needs a row. */
export const ROWS: readonly OperationRow[] = [
  ...RESERVATION_ROWS,
  ...DECISION_AND_EVENT_ROWS,
  ...EVIDENCE_ROWS,
  ...BALANCE_ROWS,
  ...TENANT_ROWS,
  ...API_KEY_ROWS,
  ...BUDGET_ROWS,
  ...POLICY_ROWS,
  ...ACTION_KIND_ROWS,
  ...ACTION_QUOTA_ROWS,
  ...AUDIT_LOG_ROWS,
  ...EVENT_LOG_ROWS,
  ...DELIVERY_ROWS,
  ...WEBHOOK_ROWS,
];
