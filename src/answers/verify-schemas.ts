import { COUNT, FLAG, INT64, kept, list, object, oneOf, PAGE, TEXT } from './parts.js';

const FIGURES = { remaining: INT64, reserved: INT64, spent: INT64, allocated: INT64, debt: INT64 };

export const VERIFY_SCHEMAS = {
  VerifyReport: object(
    {
      deployment_id: { ...TEXT, description: 'Which ledger this is; made at its first start.' },
      ok: FLAG,
      tenants: COUNT,
      budgets: COUNT,
      drift: list(
        object(
          {
            tenant_id: TEXT,
            scope: TEXT,
            unit: TEXT,
            kind: oneOf('RESERVED', 'INVARIANT', 'UNREADABLE_BUDGET', 'MISSING_BUDGET', 'PERIOD', 'CREDITS'),
            reservation_count: COUNT,
            reservations: list(object({ reservation_id: TEXT, amount: INT64, quarantined: FLAG })),
          },
          {
            stored: object({}, { ...FIGURES, status: TEXT }),
            expected: INT64,
            difference: INT64,
            period_defect: kept(
              'INVALID_INSTANTS',
              'UNKNOWN_POLICY',
              'INVALID_ALLOCATION',
              'INVALID_BOUNDARIES',
              'NOT_INDEXED',
              'NOT_PLANNED',
              'INVALID_WINDOWS',
              'INVALID_WINDOW_PLANS',
              'WINDOW_NOT_PLANNED',
              'NOT_MARKED',
            ),
            credit_defect: kept(
              'INVALID_CREDITS',
              'NOT_ALLOCATED',
              'NOT_HELD',
              'CREDIT_NOT_INDEXED',
              'NOT_GRANTED',
              'NOT_SPENT',
            ),
          },
        ),
      ),
      unreadable: list(object({ tenant_id: TEXT, reservation_id: TEXT, reason: TEXT, quarantined: FLAG })),
      journal: list(
        object({
          tenant_id: TEXT,
          reservation_id: { ...TEXT, description: 'Or the `event_id` of a direct debit.' },
          kind: {
            ...oneOf('MISSING', 'DOUBLED', 'LIVE', 'CHARGE', 'REFUND'),
            description:
              'What is wrong with the entry of its end: none, several, one too early, or another charge. `REFUND`: its refunds do not add up.',
          },
        }),
      ),
      has_more: FLAG,
    },
    { ...PAGE, restored_from: { ...TEXT, description: 'The deployment that this one is a copy of.' } },
  ),
} as const;
