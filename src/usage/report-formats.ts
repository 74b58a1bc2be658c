import { INT64_MAX } from '../ledger/index.js';
import { csvCell, stringifyJson } from '../wire/index.js';
import { dateText, hourText } from './time-zone.js';
import { FIGURES } from './usage.dto.js';

/** One row of a report: a text for each key that its charges have, and exact figures. */
export interface ReportRow {
  readonly keys: readonly (string | undefined)[];
  readonly unit: string;
  readonly figures: readonly bigint[];
}

export interface Report {
  /** What the rows are grouped by, as the request names it. */
  readonly groups: readonly string[];
  readonly rows: readonly ReportRow[];
  /** Whether there are more rows than the limit. */
  readonly hasMore: boolean;
  readonly totals: readonly ReportRow[];
}

/** A key as it is shown, from how the statement gives it. */
export function keyText(group: string, value: string | null | undefined): string | undefined {
  if (value === null || value === undefined) {
    return undefined;
  }
  switch (group) {
    case 'day':
      return dateText(Number(value));
    case 'recorded_at':
      return new Date(Number(value)).toISOString();
    case 'month':
      return dateText(Number(value)).slice(0, 7);
    case 'hour': {
      const [atMs, offsetMs] = value.split(' ').map(Number) as [number, number];
      return hourText(atMs, offsetMs);
    }
    default:
      return value;
  }
}

/** A JSON integer as elsewhere, and a text where 64 bits do not suffice: no reader would keep it. */
const figure = (value: bigint): bigint | string => (value > INT64_MAX ? value.toString() : value);

function membersOf({ keys, unit, figures }: ReportRow, groups: readonly string[]): object {
  return Object.fromEntries([
    ...groups.map((group, index) => [group, keys[index]] as const),
    ['unit', unit] as const,
    ...FIGURES.map((name, index) => [name, figure(figures[index] as bigint)] as const),
  ]);
}

/** The members that every form of a report shares. */
export function reportJson({ groups, rows, totals, hasMore }: Report): object {
  return {
    rows: rows.map((row) => membersOf(row, groups)),
    totals: totals.map((row) => membersOf(row, [])),
    has_more: hasMore,
  };
}

export function reportNdjson({ groups, rows }: Report): string {
  return rows.map((row) => `${stringifyJson(membersOf(row, groups))}\n`).join('');
}

/** RFC 4180. */
export function reportCsv({ groups, rows }: Report): string {
  const lines = [
    [...groups, 'unit', ...FIGURES],
    ...rows.map(({ keys, unit, figures }) => [...keys, unit, ...figures]),
  ];
  return lines.map((cells) => `${cells.map(csvCell).join(',')}\r\n`).join('');
}
