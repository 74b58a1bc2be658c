import { LATENESS_BUCKETS } from '../expiry/index.js';
import type { MetricsTable } from '../telemetry/index.js';

export const GOVERNANCE_METRICS = {
  unregisteredKinds: {
    name: 'holdfast_unregistered_action_kinds_total',
    help: 'Reserve and decide requests whose kind of action is neither in the registry nor declared, by what became of them.',
    labels: ['outcome'],
  },
  rollovers: {
    name: 'holdfast_budget_rollovers_total',
    help: 'Periods of budgets that began at the end of the period before, by a request or by the job for idle budgets.',
  },
  births: {
    name: 'holdfast_budgets_made_by_templates_total',
    help: 'Budgets that a template has made for the first request at their scope.',
  },
  windowTurns: {
    name: 'holdfast_budget_window_turns_total',
    help: 'Windows of budgets that began at the end of the window before, when a request used the budget.',
  },
  creditMoments: {
    name: 'holdfast_credit_moments_total',
    help: 'Starts, notices and ends of credits, by a request or by the job for idle budgets.',
  },
  creditLateness: {
    name: 'holdfast_credit_lateness_seconds',
    help: 'How late the job for idle budgets was for the first moment of a credit that it found due in a partition.',
    buckets: LATENESS_BUCKETS,
  },
  utilization: {
    name: 'holdfast_budget_utilization_ratio',
    help: 'Which part of its allocation is spent or held, of the up to 100 budgets of which the most is, from 0.8 on. Looked at each minute.',
    labels: ['tenant', 'scope', 'unit'],
    acrossWorkers: 'max',
  },
  plans: {
    name: 'holdfast_budget_plans_total',
    help: 'Periods and windows of budgets, and templates of budgets, whose next boundaries were computed from their recurrence, by outcome: PLANNED or SKIP.',
    labels: ['outcome'],
  },
  damagedBoundaries: {
    name: 'holdfast_budget_boundaries_damaged_total',
    help: 'Budgets that could not pass the end of a period or window because their record is damaged.',
  },
  closingsIncomplete: {
    name: 'cycles_admin_tenant_close_reconcile_incomplete_total',
    help: 'Runs that left a closed tenant with resources not closed yet.',
  },
  closingsFailed: {
    name: 'cycles_admin_tenant_close_reconcile_errors_total',
    help: 'Runs over the closing tenants that failed.',
  },
} as const satisfies MetricsTable;
