import type { Tenants } from '../auth/index.js';
import type { Superseded } from '../archive/index.js';
import { DAY_MS } from '../ledger/index.js';
import { archivedRows } from './archived-rows.js';
import type { Parameter } from './query-process.js';
import type { ZoneOffset } from './time-zone.js';
import { DIMENSION, FIGURES, type Group } from './usage.dto.js';

/** What a report is asked for, checked. */
export interface ReportQuery {
  readonly fromMs: number;
  readonly toMs: number;
  readonly offsets: readonly ZoneOffset[];
  readonly groups: readonly string[];
  readonly scopeDepth: number | undefined;
  /** Each row must be equal to it. */
  readonly equals: Readonly<Partial<Record<EqualColumn, string | undefined>>>;
  readonly dimension: { readonly name: string; readonly value: string } | undefined;
  /** The scope, and all below it. */
  readonly scope: string | undefined;
  /** That the operator is confined to. */
  readonly tenants: Tenants;
  /** One of each group must be among the segments of the scope, each with all of its segments. */
  readonly segments: readonly (readonly (readonly string[])[])[];
  readonly order: { readonly by: string; readonly descending: boolean } | undefined;
  readonly limit: number;
}

/** How each column is compared. Scopes are in lower case, and their levels as the client has written them. */
const EQUAL_COLUMNS = {
  tenant: 'tenant',
  unit: 'unit',
  source: 'source',
  action_kind: 'action_kind',
  action_name: 'action_name',
  model_version: 'model_version',
  key_id: 'key_id',
  workspace: 'lower(workspace)',
  app: 'lower(app)',
  workflow: 'lower(workflow)',
  agent: 'lower(agent)',
  toolset: 'lower(toolset)',
} as const;
export type EqualColumn = keyof typeof EQUAL_COLUMNS;

const HOUR_MS = 3_600_000;

/** A day or a month is the ms of local time at which it begins; an hour is the instant at which it begins, in ms, and its offset. */
const KEYS: Readonly<Record<Group, string>> = {
  hour: `(local_ms // ${HOUR_MS} * ${HOUR_MS} - offset_ms)::VARCHAR || ' ' || offset_ms::VARCHAR`,
  day: `local_ms // ${DAY_MS} * ${DAY_MS}`,
  month: "epoch_ms(date_trunc('month', make_timestamp(local_ms * 1000)))",
  tenant: 'tenant',
  scope: "array_to_string(list_slice(string_split(scope, '/'), 1, $depth), '/')",
  workspace: EQUAL_COLUMNS.workspace,
  app: EQUAL_COLUMNS.app,
  workflow: EQUAL_COLUMNS.workflow,
  agent: EQUAL_COLUMNS.agent,
  toolset: EQUAL_COLUMNS.toolset,
  action_kind: 'action_kind',
  action_name: 'action_name',
  model_version: 'model_version',
  key_id: 'key_id',
  source: 'source',
  credit: 'credit',
  recorded_at: 'epoch_ms(recorded_at)',
  record_id: 'record_id',
};

const COUNTS = 'FILTER (WHERE NOT is_superseded)';

/** Sums of BIGINT are HUGEINT: exact beyond int64. */
const SUMS: Readonly<Record<(typeof FIGURES)[number], string>> = {
  charged: `sum(charged) ${COUNTS}`,
  reserved: `sum(reserved) ${COUNTS}`,
  released: `sum(CASE WHEN state = 'RELEASED' THEN reserved - whole_charge END) ${COUNTS}`,
  expired: `sum(CASE WHEN state = 'EXPIRED' THEN reserved - whole_charge END) ${COUNTS}`,
  count: "count(*) FILTER (WHERE NOT is_superseded AND source <> 'REFUND')",
  refunded: `sum(CASE WHEN source = 'REFUND' THEN -charged END) ${COUNTS}`,
  tokens_input: `sum(tokens_input) ${COUNTS}`,
  tokens_output: `sum(tokens_output) ${COUNTS}`,
  superseded: 'sum(charged) FILTER (WHERE is_superseded)',
  superseded_count: 'count(*) FILTER (WHERE is_superseded)',
};

/** A path into JSON by RFC 6901, which can name any member. */
const pointerTo = (name: string): string => `/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;

/** A row for each credit that paid a part of a charge, with that part. Files of 0.7 have no credits. */
const BY_CREDIT = `SELECT * REPLACE (json_extract_string(credits, '$.' || credit)::BIGINT AS charged), charged AS whole_charge
  FROM (
    SELECT *, unnest(json_keys(credits)) AS credit
    FROM (FROM entries UNION ALL BY NAME SELECT NULL::VARCHAR AS credits WHERE false)
  )`;

/** Totals, one for each unit. */
const MOST_TOTALS = 16;

/**
 * The statement and its parameters. Its text is made of this file's words alone; whatever a request says is a parameter. Totals come first, and
 * begin with NULL; then come one row more than the limit, or some. Each has its keys, the unit and the figures.
 *
 * Totals and rows are sets of one grouping, which DuckDB spills to disk if it has to, and of its result it keeps no more rows than are asked for.
 * Of 3,000,000 groups, that takes 8 s of processor time; numbering the rows of a kept result with a window took 15 to 22.
 */
export function reportStatement(
  query: ReportQuery,
  files: readonly string[],
  superseded: readonly Superseded[] = [],
): { readonly sql: string; readonly parameters: Record<string, Parameter> } {
  const bound = new Bound();
  const keys = query.groups.map((group, index) => `, ${keyOf(group, query, bound)} AS k${index}`);
  const names = query.groups.map((_, index) => `k${index}`);
  const figures = FIGURES.map((name) => `COALESCE(${SUMS[name]}, 0) AS ${name}`);
  const sql = `
WITH entries AS (
  SELECT *, epoch_ms(recorded_at) + offset_ms AS local_ms FROM (
    SELECT *, ${offsetOf(query.offsets, bound)} AS offset_ms
    FROM ${archivedRows(bound.name(files), superseded)}
    WHERE ${conditions(query, bound).join('\n    AND ')}
  )
), charges AS (
  ${query.groups.includes('credit') ? BY_CREDIT : 'SELECT *, charged AS whole_charge FROM entries'}
)
SELECT ${['is_row', ...names, 'unit', ...figures].join(', ')}
FROM (SELECT *, true AS is_row${keys.join('')} FROM charges)
GROUP BY GROUPING SETS ((unit), (${['is_row', ...names, 'unit'].join(', ')}))
ORDER BY is_row NULLS FIRST, CASE WHEN is_row THEN NULL ELSE unit END, ${orderOf(query, names)}
LIMIT ${bound.name(BigInt(query.limit + 1 + MOST_TOTALS))}`;
  return { sql, parameters: bound.parameters };
}

/** Parameters by the names under which the statement refers to them. */
class Bound {
  readonly parameters: Record<string, Parameter> = {};
  private count = 0;

  name(value: Parameter): string {
    this.count += 1;
    this.parameters[`p${this.count}`] = value;
    return `$p${this.count}`;
  }
}

function keyOf(group: string, { scopeDepth }: ReportQuery, bound: Bound): string {
  if (group.startsWith(DIMENSION)) {
    return `json_extract_string(dimensions, ${bound.name(pointerTo(group.slice(DIMENSION.length)))})`;
  }
  if (group !== 'scope') {
    return KEYS[group as Group];
  }
  return scopeDepth === undefined ? 'scope' : KEYS.scope.replace('$depth', bound.name(BigInt(scopeDepth)));
}

function offsetOf(offsets: readonly ZoneOffset[], bound: Bound): string {
  const [first, ...later] = offsets;
  const since = later.map(
    ({ fromMs, offsetMs }) =>
      `WHEN recorded_at >= ${instant(fromMs, bound)} THEN ${bound.name(BigInt(offsetMs))}::BIGINT`,
  );
  const offset = `${bound.name(BigInt(first?.offsetMs ?? 0))}::BIGINT`;
  return since.length === 0 ? offset : `CASE ${since.reverse().join(' ')} ELSE ${offset} END`;
}

const instant = (ms: number, bound: Bound): string =>
  `make_timestamp(${bound.name(BigInt(ms) * 1000n)}::BIGINT)`;

function conditions(query: ReportQuery, bound: Bound): string[] {
  const { fromMs, toMs, equals, dimension, scope, tenants, segments } = query;
  const result = [
    `recorded_at >= ${instant(fromMs, bound)}`,
    `recorded_at < ${instant(toMs, bound)}`,
    // It tells of a record that was mended. What that charged was recorded when it ended.
    "source <> 'CORRECTION'",
  ];
  for (const [column, value] of Object.entries(equals)) {
    if (value !== undefined) {
      result.push(`${EQUAL_COLUMNS[column as EqualColumn]} = ${bound.name(value)}`);
    }
  }
  if (dimension !== undefined) {
    const member = `json_extract_string(dimensions, ${bound.name(pointerTo(dimension.name))})`;
    result.push(`${member} = ${bound.name(dimension.value)}`);
  }
  if (scope !== undefined) {
    result.push(`(scope = ${bound.name(scope)} OR starts_with(scope, ${bound.name(`${scope}/`)}))`);
  }
  if (tenants !== undefined) {
    const each = tenants.map((pattern) =>
      pattern.endsWith('*')
        ? `starts_with(tenant, ${bound.name(pattern.slice(0, -1))})`
        : `tenant = ${bound.name(pattern)}`,
    );
    result.push(`(${each.join(' OR ')})`);
  }
  for (const alternatives of segments) {
    const each = alternatives.map((all) =>
      all.length === 0
        ? 'true'
        : all.map((segment) => `contains('/' || scope || '/', ${bound.name(`/${segment}/`)})`).join(' AND '),
    );
    result.push(`(${each.map((one) => `(${one})`).join(' OR ')})`);
  }
  return result;
}

function orderOf({ groups, order }: ReportQuery, names: readonly string[]): string {
  const all = [...names, 'unit'];
  if (order === undefined) {
    return all.map((name) => `${name} NULLS LAST`).join(', ');
  }
  const index = groups.indexOf(order.by);
  const by = index === -1 ? (FIGURES.find((name) => name === order.by) ?? 'unit') : `k${index}`;
  return [`${by} ${order.descending ? 'DESC' : 'ASC'} NULLS LAST`, ...all].join(', ');
}
