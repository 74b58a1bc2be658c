import { ArrayMaxSize, IsArray, IsIn, IsString } from 'class-validator';
import { SCOPE_LEVELS, UNITS } from '../ledger/index.js';
import {
  FORMATS,
  instantMs,
  IsInAnyCase,
  IsInt,
  Length,
  MaxLength,
  Obeys,
  Optional,
  Satisfies,
} from '../wire/index.js';

/** What rows can be grouped by, besides `dimension:<name>`. */
export const GROUPS = [
  'hour',
  'day',
  'month',
  'tenant',
  'scope',
  'workspace',
  'app',
  'workflow',
  'agent',
  'toolset',
  'action_kind',
  'action_name',
  'model_version',
  'key_id',
  'source',
  'credit',
  'recorded_at',
  'record_id',
] as const;
export type Group = (typeof GROUPS)[number];

/** The figures of a row, each a sum over what it stands for. */
export const FIGURES = [
  'charged',
  'reserved',
  'released',
  'expired',
  'count',
  'tokens_input',
  'tokens_output',
  'superseded',
  'superseded_count',
  'refunded',
] as const;

export const SOURCES = ['RESERVATION', 'DIRECT_DEBIT', 'REFUND'] as const;

export const DIMENSION = 'dimension:';
/** Each further key multiplies the rows. */
const MOST_KEYS = 6;
export const MOST_ROWS = 10_000;
export const DEFAULT_ROWS = 1000;

const GROUP = new RegExp(`^(?:${GROUPS.join('|')}|${DIMENSION}.{1,256})$`, 's');

function IsInstant(): PropertyDecorator {
  return Obeys({
    name: 'isInstant',
    test: (value) => typeof value === 'string' && boundMs(value) !== undefined,
    schema: { type: 'string' },
    phrase:
      "a date-time such as 2026-01-31T12:00:00Z (a '+' is written %2B in a URL), or milliseconds since 1970",
  });
}

/** In ms since 1970. */
export function boundMs(text: string): number | undefined {
  return /^\d{1,14}$/.test(text) ? Number(text) : instantMs(text);
}

/** Texts that may be compared with what clients have sent. */
function Exactly(): PropertyDecorator {
  return Optional(Length(1, 1024));
}

/** Query of GET /v1/usage and GET /ops/usage. */
export class UsageQueryDto {
  /** Included. By default, 30 days before `to`. */
  @Optional(IsInstant())
  from?: string;

  /** Excluded. By default, now. */
  @Optional(IsInstant())
  to?: string;

  /** Where hours, days and months begin. */
  @Optional(MaxLength(64))
  time_zone?: string;

  @Optional()
  @IsArray()
  @ArrayMaxSize(MOST_KEYS)
  @IsString({ each: true })
  @Satisfies(
    `each one of ${GROUPS.join(', ')} or ${DIMENSION}<name>`,
    (value) => Array.isArray(value) && value.every((group) => GROUP.test(String(group))),
  )
  group_by?: string[];

  /** Scopes are cut after this many segments. For `group_by=scope`. */
  @Optional(IsInt({ min: 1, max: SCOPE_LEVELS.length }))
  scope_depth?: number;

  @Exactly()
  tenant_id?: string;

  /** The scope, and all below it. */
  @Exactly()
  scope?: string;

  @Optional(IsIn(UNITS))
  unit?: string;

  @Exactly()
  workspace?: string;

  @Exactly()
  app?: string;

  @Exactly()
  workflow?: string;

  @Exactly()
  agent?: string;

  @Exactly()
  toolset?: string;

  @Exactly()
  action_kind?: string;

  @Exactly()
  action_name?: string;

  @Exactly()
  model_version?: string;

  @Exactly()
  key_id?: string;

  @Optional(IsIn(SOURCES))
  source?: string;

  /** `<name>=<value>`, at the first equals sign. */
  @Exactly()
  dimension?: string;

  /** A key of `group_by` or a figure, with a minus in front for the largest first. By default, the keys in their order. */
  @Exactly()
  order?: string;

  /** Rows. Totals are of everything all the same. */
  @Optional(IsInt({ min: 1, max: MOST_ROWS }))
  limit?: number;

  /** Overrides the Accept header. */
  @Optional(IsInAnyCase(FORMATS))
  format?: string;
}
