import { OVERAGE_POLICIES, UNITS } from '../ledger/index.js';
import {
  bulkResponse,
  COUNT,
  FLAG,
  FREE,
  INT64,
  kept,
  list,
  MILLISECONDS,
  object,
  oneOf,
  PAGE,
  ref,
  TEXT,
  TIME,
} from './parts.js';

const AMOUNT = ref('Amount');
const PERIODS = ['day', 'week', 'month', 'quarter', 'year'];
/** Of a recurrence. */
const RULE = {
  every: oneOf(...PERIODS),
  time_zone: TEXT,
  anchor_day: COUNT,
  anchor_month: COUNT,
  anchor_hour: {
    ...COUNT,
    description: 'The hour of the local day at which it begins; absent for midnight.',
  },
};

const WINDOW_RULE = {
  ...RULE,
  every: oneOf('hour', ...PERIODS),
  length_hours: {
    ...COUNT,
    description: 'How many hours windows of hours last; each local day begins with a new one.',
  },
};

/** The answers of the operators' paths that budgets have. */
export const BUDGET_OPERATIONS_SCHEMAS = {
  BudgetRecurrence: object(
    {
      scope: TEXT,
      unit: oneOf(...UNITS),
      rollover_policy: kept('NONE', 'CARRY_FORWARD', 'CAP_AT_ALLOCATED'),
      next_boundaries: list(TIME),
    },
    {
      ...RULE,
      period_start: TIME,
      period_end: TIME,
      period_allocated: AMOUNT,
    },
  ),
  TenantSumsResponse: object({
    as_of: { ...TIME, description: 'When the budgets were read, as for the overview.' },
    tenants: {
      ...list(
        object({
          tenant_id: TEXT,
          sums: {
            ...list(
              object({
                unit: oneOf(...UNITS),
                allocated: INT64,
                spent: INT64,
                reserved: INT64,
                debt: INT64,
                remaining: INT64,
              }),
            ),
            description:
              'One for each unit, over its topmost budgets: those below them have the same charges and holds again.',
          },
        }),
      ),
      description: 'Those that were asked for.',
    },
  }),
  LiveHoldList: object(
    {
      holds: list(
        object({
          reservation_id: TEXT,
          tenant_id: TEXT,
          scope: TEXT,
          amount: AMOUNT,
          created_at_ms: MILLISECONDS,
          expires_at_ms: MILLISECONDS,
          reclaim_at_ms: MILLISECONDS,
        }),
      ),
      examined: {
        ...COUNT,
        description: 'How many live reservations were looked at, for confined operators of their tenants.',
      },
      has_more: FLAG,
    },
    PAGE,
  ),
  BudgetHoldList: object(
    {
      scope: TEXT,
      unit: oneOf(...UNITS),
      holds: list(
        object(
          {
            reservation_id: TEXT,
            amount: AMOUNT,
            expires_at_ms: MILLISECONDS,
            reclaim_at_ms: {
              ...MILLISECONDS,
              description: 'The end of the grace, when the amount, less the charge, is back at the latest.',
            },
            expires_by_itself: {
              ...FLAG,
              description: 'False under MANUAL_CLEANUP: only a commit, a release or a cleanup ends it.',
            },
          },
          { charge_on_expiry: { ...AMOUNT, description: 'What it costs if it expires.' } },
        ),
      ),
      examined: {
        ...COUNT,
        description:
          "How many live reservations were looked at, of all tenants of the budget's partition, for confined operators of the budget's.",
      },
      has_more: FLAG,
    },
    PAGE,
  ),
  BudgetWindows: object({ scope: TEXT, unit: oneOf(...UNITS), windows: list(ref('BudgetWindow')) }),
  CreditBulkResponse: bulkResponse('GRANT_CREDIT'),
  CreditList: object(
    {
      credits: {
        ...list(ref('Credit')),
        description:
          'Those that have not ended, in the order in which they burn, then those that have ended within 30 days, newest first.',
      },
    },
    { has_more: { ...FLAG, description: 'There if more have ended than are shown.' } },
  ),
  EndingCreditList: object({
    ends_before: { ...TIME, description: 'The last end that was looked for.' },
    budgets: {
      ...list(
        object({
          tenant_id: TEXT,
          scope: TEXT,
          unit: oneOf(...UNITS),
          credits: { ...COUNT, description: 'How many of its credits end by then.' },
          first_ends_at: { ...TIME, description: 'When the first of them ends.' },
          remaining: {
            ...AMOUNT,
            description:
              'What is left of them, which the budget loses unless it is consumed, or pinned for holds, before.',
          },
        }),
      ),
      description: 'By when the first of their credits ends; at most 100.',
    },
    examined: {
      ...COUNT,
      description: 'How many budgets with credits were looked at, for confined operators of their tenants.',
    },
    has_more: { ...FLAG, description: 'Whether there are more, or some that were not looked at.' },
  }),
  Credit: object(
    {
      credit_id: TEXT,
      name: TEXT,
      status: {
        ...oneOf('SCHEDULED', 'ACTIVE', 'ENDED', 'EXHAUSTED', 'VOIDED'),
        description: 'SCHEDULED before it starts; EXHAUSTED when it was consumed before its end.',
      },
      amount: { ...AMOUNT, description: 'What was granted.' },
      remaining: { ...AMOUNT, description: 'What can still be consumed by anything that is charged.' },
      consumed: { ...AMOUNT, description: 'What was charged to it, and what of it repaid debt.' },
      lapsed: { ...AMOUNT, description: 'What nobody used before its end.' },
      pinned: {
        ...AMOUNT,
        description: 'After its end: what holds that were made before may still need.',
      },
      voided: { ...AMOUNT, description: 'What an operator took back.' },
      priority: { ...COUNT, description: '0 burns first, 100 last.' },
      effective_at: { ...TIME, description: 'When it starts, or started.' },
      created_at: TIME,
    },
    {
      category: { ...TEXT, description: 'Of what sort it is, in your words.' },
      expires_at: { ...TIME, description: 'When it ends. Absent for a credit without an end.' },
      notify_before_ms: {
        ...MILLISECONDS,
        description: 'How long before its end `custom.credit.ending` comes, in ms.',
      },
      metadata: FREE,
      ended_at: { ...TIME, description: 'When it ended, was consumed or voided.' },
    },
  ),
  BudgetThresholds: object({
    scope: TEXT,
    unit: oneOf(...UNITS),
    thresholds: {
      ...list({ type: 'number' }),
      description: 'Shares of what is allocated, which spent + reserved is compared with.',
    },
    threshold_amounts: { ...list(INT64), description: 'Amounts, in the unit.' },
  }),
  BudgetOrigin: object(
    { scope: TEXT, unit: oneOf(...UNITS) },
    { template_id: { ...TEXT, description: 'The template that made the budget. Absent if a request did.' } },
  ),
  BudgetTemplateList: object({ templates: list(ref('BudgetTemplate')), has_more: FLAG }, PAGE),
  BudgetTemplate: object(
    {
      template_id: TEXT,
      tenant_id: TEXT,
      scope_pattern: TEXT,
      unit: oneOf(...UNITS),
      allocated: AMOUNT,
      overdraft_limit: AMOUNT,
      rollover_policy: kept('NONE', 'CARRY_FORWARD', 'CAP_AT_ALLOCATED'),
      created_at: TIME,
      updated_at: TIME,
    },
    {
      commit_overage_policy: kept(...OVERAGE_POLICIES),
      period_ms: { ...MILLISECONDS, description: 'The length of periods that begin with the budget.' },
      recurrence: object({}, RULE),
      windows: list(object({ name: TEXT, limit: AMOUNT }, WINDOW_RULE)),
      credits: {
        ...list(
          object(
            {
              name: TEXT,
              amount: { ...AMOUNT, description: 'What each budget gets beside its allocation.' },
              lasts_ms: {
                ...MILLISECONDS,
                description: 'How long it burns, from the instant at which the budget gets it.',
              },
              priority: { ...COUNT, description: '0 burns first, 100 last.' },
            },
            {
              category: { ...TEXT, description: 'Of what sort it is, in your words.' },
              notify_before_ms: {
                ...MILLISECONDS,
                description: 'How long before its end `custom.credit.ending` comes, in ms.',
              },
              metadata: FREE,
            },
          ),
        ),
        description: 'Each budget that the template makes gets each of them, once.',
      },
      metadata: FREE,
      existing: {
        ...bulkResponse('APPLY_TEMPLATE'),
        description: 'With apply_to_existing: the outcome of each budget that the template has made.',
      },
      existing_left: {
        ...COUNT,
        description:
          'With apply_to_existing: how many budgets that the template has made another request can still change. Closed and frozen ones do not count.',
      },
    },
  ),
  BudgetWindow: object(
    {
      name: TEXT,
      limit: AMOUNT,
      spent: AMOUNT,
      remaining: object({ unit: oneOf(...UNITS), amount: INT64 }),
      starts_at: TIME,
      ends_at: TIME,
      next_boundaries: list(TIME),
    },
    WINDOW_RULE,
  ),
} as const;
