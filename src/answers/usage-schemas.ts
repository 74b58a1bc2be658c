import { UNITS } from '../ledger/index.js';
import {
  type AnswerSchema,
  COUNT,
  FLAG,
  INT64,
  list,
  MILLISECONDS,
  object,
  oneOf,
  ref,
  TEXT,
} from './parts.js';

/** Beyond int64, a figure is a text. */
const USAGE_FIGURE = { anyOf: [INT64, { type: 'string', pattern: '^-?[0-9]+$' }] } as const;
const USAGE_FIGURES = {
  charged: {
    ...USAGE_FIGURE,
    description:
      'By commits, expiries and direct debits: what each scope was charged, less what was refunded.',
  },
  reserved: { ...USAGE_FIGURE, description: 'What the reservations held that ended.' },
  released: { ...USAGE_FIGURE, description: 'What releases gave back.' },
  expired: { ...USAGE_FIGURE, description: 'What expiries gave back.' },
  count: { ...COUNT, description: 'Reservations that ended, and direct debits.' },
  tokens_input: { ...USAGE_FIGURE, description: "From the commits' metrics." },
  tokens_output: { ...USAGE_FIGURE, description: "From the commits' metrics." },
  superseded: {
    ...USAGE_FIGURE,
    description:
      'What was charged and is no more, because Redis was put back to an earlier state. In no other figure.',
  },
  superseded_count: {
    ...COUNT,
    description: 'Reservations that ended, and direct debits, before Redis was put back.',
  },
  refunded: { ...USAGE_FIGURE, description: 'What was refunded. It is taken off `charged` already.' },
};
/** What a row can be grouped by. A key that its charges lack is absent. */
const USAGE_KEYS = {
  hour: {
    ...TEXT,
    description: 'When it begins, with its offset from UTC, such as 2026-10-25T02:00:00+01:00.',
  },
  day: { ...TEXT, description: 'Such as 2026-10-25.' },
  month: { ...TEXT, description: 'Such as 2026-10.' },
  tenant: TEXT,
  scope: TEXT,
  workspace: TEXT,
  app: TEXT,
  workflow: TEXT,
  agent: TEXT,
  toolset: TEXT,
  action_kind: TEXT,
  action_name: TEXT,
  model_version: TEXT,
  key_id: TEXT,
  source: oneOf('RESERVATION', 'DIRECT_DEBIT', 'REFUND'),
  credit: { ...TEXT, description: 'The credit that paid.' },
  recorded_at: {
    ...TEXT,
    description:
      'When the charge was recorded, such as 2026-10-25T00:30:00.000Z. With `record_id`, each charge has a row.',
  },
  record_id: { ...TEXT, description: 'The reservation that ended, or the event of the direct debit.' },
};

const USAGE_ROW: AnswerSchema = {
  type: 'object',
  required: ['unit', ...Object.keys(USAGE_FIGURES)],
  // A dimension has the name under which it was asked for.
  additionalProperties: TEXT,
  properties: { ...USAGE_KEYS, unit: oneOf(...UNITS), ...USAGE_FIGURES },
};

/** The answer of GET /v1/usage and GET /ops/usage. */
export const USAGE_SCHEMAS = {
  UsageRow: USAGE_ROW,
  UsageReport: object({
    rows: list(ref('UsageRow')),
    totals: { ...list(ref('UsageRow')), description: 'One for each unit, of all rows, whatever the limit.' },
    has_more: { ...FLAG, description: 'Whether the limit leaves rows out.' },
    complete_from_ms: {
      ...MILLISECONDS,
      description:
        'Everything from this instant on is in the report, but for the gaps: the archive began then, or its retention removed what was before.',
    },
    complete_through_ms: {
      ...MILLISECONDS,
      description:
        'Everything up to this instant is in the report, but for the gaps. 0: nothing is archived yet.',
    },
    epochs_ms: {
      ...list(MILLISECONDS),
      description: 'When the archive began, and each time that Redis was put back since: see superseded.',
    },
    gaps: {
      ...list(
        object(
          { from_ms: MILLISECONDS, to_ms: MILLISECONDS, why: oneOf('MISSING', 'CUT', 'DAMAGED') },
          {
            partition: { ...COUNT, description: 'Absent if all partitions lack it.' },
            file: { ...TEXT, description: 'Of the archive: it is missing or damaged.' },
          },
        ),
      ),
      description: 'Spans whose charges the archive has lost.',
    },
  }),
} as const;
