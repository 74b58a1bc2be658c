import { Button } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { type ReactNode, useId } from 'react';
import { isTimeZone } from '../../../../src/governance/budgets/time-zone';
import { filled } from '../../api/client';
import { serverNowMs } from '../../api/server-time';
import { Amount, unitWord } from '../../parts/amount';
import { FilterBar, type FilterChange, useFilterChange, useSetters } from '../../parts/filter-bar';
import { ChoiceFilter, TextFilter } from '../../parts/filters';
import { COUNT } from '../../parts/numbers';
import { PageHead, Panel } from '../../parts/panel';
import { Empty } from '../../parts/states';
import { useTitle } from '../../parts/title';
import { TenantFilter } from '../../parts/tenant-filter';
import { UsageChart } from './chart';
import { Incomplete, nothingOf } from './incomplete';
import { LoadedUsage } from './report';
import { CHARGE_KEYS, Charges } from './charges';
import { DayTable } from './days';
import { TopTable } from './tables';
import { KEY_FILTERS, KEYS, USAGE_FILTERS } from './filters';
import {
  dayAfter,
  dayAt,
  daysBetween,
  isDay,
  lastDays,
  MOST_ROWS,
  nameOf,
  queryOf,
  readUsage,
  spanOf,
  USAGE,
  type Usage,
  UTC,
  ZONE,
} from './usage';

const route = getRouteApi('/usage');
const DAYS = 30;
const MOST_DAYS = 366;
const DEFAULT_BY = 'action_kind';
/** As in a sentence: only `API` stays in capitals. */
const wordOf = (by: readonly string[]): string =>
  by.map((key) => (KEYS[key] ?? key).toLowerCase().replace(/^api\b/, 'API')).join(' and ');
const { [DEFAULT_BY]: _, ...OTHER_KEYS } = KEYS;
/** Those that have a filter of their own are not shown again. */
const CHOSEN = KEY_FILTERS.filter((name) => name !== 'tenant_id' && name !== 'scope');
type Filters = FilterChange<(typeof USAGE_FILTERS)[number]>;

/** The zones that can be chosen, but for the reader's, which is that without a choice. */
const ZONES = Object.fromEntries(
  [UTC, ...Intl.supportedValuesOf('timeZone')].filter((zone) => zone !== ZONE).map((zone) => [zone, zone]),
);

/** The days that the filters name, at most a year of them. */
function daysOf({ from = '', to = '' }: Filters, zone: string): string[] {
  const last = isDay(to) ? to : dayAt(serverNowMs(), zone);
  const [earliest = last] = lastDays(MOST_DAYS, last);
  const first = !isDay(from) ? dayAfter(last, 1 - DAYS) : from < earliest ? earliest : from;
  return first > last ? [last] : daysBetween(first, last);
}

/** Those, and one that only the address names. */
const withChosen = (keys: Readonly<Record<string, string>>, key = DEFAULT_BY): Record<string, string> =>
  key in KEYS ? keys : { ...keys, [key]: key };

/** Who spent what, on what, on which day. */
export function UsagePage(): ReactNode {
  useTitle('Usage');
  const filters = route.useSearch();
  const { by: first = DEFAULT_BY, and, unit, zone: chosen = ZONE } = filters;
  const zone = isTimeZone(chosen) ? chosen : ZONE;
  const by = and === undefined || and === first ? [first] : [first, and];
  const keys = Object.fromEntries(KEY_FILTERS.map((name) => [name, filters[name]]));
  const days = daysOf(filters, zone);
  const span = { ...spanOf(days, zone), zone };
  const usage = useQuery({
    queryKey: [USAGE, span, by, keys, unit],
    queryFn: () => readUsage({ ...span, by, unit, filters: keys }),
    placeholderData: keepPreviousData,
  });
  const shown = usage.data?.unit;
  const query = queryOf({ ...span, filters: keys });
  const fileBy = (groups: string): string =>
    filled(USAGE, { ...query, unit: shown, group_by: groups, limit: MOST_ROWS, format: 'csv' });
  return (
    <>
      <PageHead title="Usage">
        {usage.data?.total !== undefined && (
          <Button
            component="a"
            href={fileBy(['day', ...by].join(','))}
            download
            size="compact-sm"
            variant="default"
          >
            Download CSV
          </Button>
        )}
      </PageHead>
      <UsageFilters filters={{ ...filters, unit }} units={usage.data?.units ?? []} days={days} />
      {days.length === MOST_DAYS && (filters.from ?? '') < (days[0] ?? '') && (
        <div className="notice warn" role="status" style={{ marginBottom: 16 }}>
          Only the last {MOST_DAYS} of these days are shown. Choose others for what was charged before.
        </div>
      )}
      <LoadedUsage usage={usage} height={420}>
        {(read) => (
          <Report usage={read} days={days} by={by} span={span}>
            <Charges query={query} unit={read.unit} file={fileBy(CHARGE_KEYS)} />
          </Report>
        )}
      </LoadedUsage>
    </>
  );
}

function Report({
  usage,
  days,
  by,
  span: { from, to, zone },
  children,
}: {
  usage: Usage;
  days: readonly string[];
  by: readonly string[];
  span: { readonly from: string; readonly to: string; readonly zone: string };
  /** What one day is made of. */
  children: ReactNode;
}): ReactNode {
  const { report, total, unit, isCut } = usage;
  return (
    <div className="stack">
      <Incomplete report={report} from={from} to={to} />
      {isCut && (
        <div className="notice warn" role="status">
          There are more than {COUNT.format(MOST_ROWS)} rows by day and {wordOf(by)}. The CSV ends after the
          first {COUNT.format(MOST_ROWS)}, and the chart has the smallest among all others. Choose fewer days,
          or filter.
        </div>
      )}
      {total === undefined ? (
        <section className="panel">
          <Empty title={`${nothingOf(report, from, to)} in these days`}>
            Charges appear about a minute after a reservation has ended. Choose other days or filters.
          </Empty>
        </section>
      ) : (
        <>
          <Panel
            title={`Charged a day, by ${wordOf(by)}`}
            aside={
              <>
                <Amount amount={BigInt(total.charged)} unit={unit} withUnit /> in all
              </>
            }
          >
            <UsageChart days={days} usage={usage} nameOf={nameOf} />
          </Panel>
          <TopTable usage={usage} by={by} />
          {days.length > 1 ? <DayTable usage={usage} days={days} zone={zone} /> : children}
        </>
      )}
    </div>
  );
}

function UsageFilters({
  filters,
  units,
  days,
}: {
  filters: Filters;
  units: readonly string[];
  days: readonly string[];
}): ReactNode {
  const change = useFilterChange<(typeof USAGE_FILTERS)[number]>();
  const set = useSetters(USAGE_FILTERS, change);
  return (
    <FilterBar filters={filters} names={USAGE_FILTERS} change={change}>
      <ChoiceFilter
        label="By"
        all={KEYS[DEFAULT_BY] ?? ''}
        value={filters.by}
        choices={withChosen(OTHER_KEYS, filters.by)}
        onChange={set.by}
      />
      <ChoiceFilter
        label="And by"
        all="Nothing else"
        value={filters.and}
        choices={withChosen(KEYS, filters.and)}
        onChange={set.and}
      />
      <DayFilter label="From" value={filters.from ?? days[0]} onChange={set.from} />
      <DayFilter label="To" value={filters.to ?? days.at(-1)} onChange={set.to} />
      <TenantFilter value={filters.tenant_id} onChange={set.tenant_id} />
      <TextFilter label="Scope" value={filters.scope} onChange={set.scope} wide />
      {CHOSEN.map(
        (name) =>
          filters[name] !== undefined && (
            <TextFilter
              key={name}
              label={KEYS[name] ?? 'Dimension'}
              value={filters[name]}
              onChange={set[name]}
            />
          ),
      )}
      <ChoiceFilter label="Days of" all={ZONE} value={filters.zone} choices={ZONES} onChange={set.zone} />
      {units.length > 1 && (
        <ChoiceFilter
          label="Unit"
          all={unitWord(units[0] ?? '')}
          value={filters.unit === units[0] ? undefined : filters.unit}
          choices={Object.fromEntries(units.slice(1).map((one) => [one, unitWord(one)]))}
          onChange={set.unit}
        />
      )}
    </FilterBar>
  );
}

function DayFilter({
  label,
  value,
  onChange,
}: {
  label: string;
  value: string | undefined;
  onChange: (value: string | undefined) => void;
}): ReactNode {
  const id = useId();
  return (
    <div className="filter">
      <label htmlFor={id}>{label}</label>
      <input
        id={id}
        type="date"
        value={value ?? ''}
        onChange={({ currentTarget: { value: day } }) => onChange(day === '' ? undefined : day)}
      />
    </div>
  );
}
