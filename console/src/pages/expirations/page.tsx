import { Button } from '@mantine/core';
import { getRouteApi, Link } from '@tanstack/react-router';
import { type ReactNode, useMemo } from 'react';
import { usePage } from '../../api/list';
import type { Schema } from '../../api/operations';
import { serverNowMs } from '../../api/server-time';
import { Exporter } from '../../parts/exporter';
import {
  type FilterChange,
  FilterBar,
  TimeFilter,
  useFilterChange,
  useSetters,
} from '../../parts/filter-bar';
import { ChoiceFilter, TextFilter } from '../../parts/filters';
import { COUNT, percentOf } from '../../parts/numbers';
import { PagedList } from '../../parts/pager';
import { PageHead, Panel } from '../../parts/panel';
import { Empty, Failure } from '../../parts/states';
import { TenantFilter } from '../../parts/tenant-filter';
import { useTitle } from '../../parts/title';
import { type Counts, useCounts } from './counts';
import { Histogram } from './histogram';
import { ExpirationTable } from './table';
import { DEFAULT_LAST, isoOf, LAST, moved, type Window, windowOf, zoomed, slotOf } from './window';

const route = getRouteApi('/expirations');
const FILTERS = ['tenant', 'scope', 'state'] as const;
const EXPORT = {
  path: '/ops/expirations' as const,
  limit: 1000,
  rows: (answer: Schema<'ExpirationListResponse'>) => answer.expirations,
  columns: [
    'at_ms',
    'at',
    'state',
    'reservation_id',
    'tenant_id',
    'scope',
    'unit',
    'amount',
    'created_at_ms',
    'ttl_ms',
    'extensions_used',
    'reason',
    'event_id',
    'request_id',
    'trace_id',
  ],
};

type Change = FilterChange<(typeof FILTERS)[number] | 'last' | 'from' | 'to'>;

/** What expired when: bars over time, and below them each expiration. */
export function Expirations(): ReactNode {
  useTitle('Expirations');
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { last, from, to, tenant, scope, state, cursor } = search;
  // A window that ends now keeps its end until another one is chosen.
  const shown = useMemo(() => windowOf({ last, from, to }, serverNowMs()), [last, from, to]);
  const query = useMemo(
    () => ({ from: isoOf(shown.fromMs), to: isoOf(shown.toMs), tenant_id: tenant, scope, state }),
    [shown, tenant, scope, state],
  );
  const { counts, error, retry } = useCounts({ ...query, slot_ms: slotOf(shown) });
  const page = usePage('/ops/expirations', query, (answer) => answer.expirations, { cursor });
  const change = useFilterChange<(typeof FILTERS)[number] | 'last' | 'from' | 'to'>();
  const look = ({ fromMs, toMs }: Window): void =>
    void navigate({
      search: (old) => ({
        ...old,
        cursor: undefined,
        last: undefined,
        from: isoOf(fromMs),
        to: isoOf(toMs),
      }),
      resetScroll: false,
    });
  return (
    <>
      <PageHead title="Expirations">
        {Object.entries(LAST).map(([key, { label }]) => (
          <Button
            key={key}
            size="compact-sm"
            variant="default"
            aria-pressed={from === undefined && (last ?? DEFAULT_LAST) === key}
            className="choice"
            onClick={() => change({ last: key, from: undefined, to: undefined })}
          >
            {label}
          </Button>
        ))}
      </PageHead>
      <Filters search={search} window={query} change={change} />
      <div className="stack">
        <Panel
          title={counts === undefined ? 'Expirations' : `${COUNT.format(counts.total)} ${wordFor(state)}`}
          aside={<span role="status">{progressOf(counts)}</span>}
        >
          {error !== null && <Failure error={error} retry={retry} />}
          <Histogram window={shown} counts={counts} choose={look} />
          <div className="row" style={{ marginTop: 12 }}>
            {WINDOW_BUTTONS.map(([label, to]) => (
              <Button key={label} size="compact-sm" variant="default" onClick={() => look(to(shown))}>
                {label}
              </Button>
            ))}
          </div>
        </Panel>
        <Panel title="Each of them" flush>
          <Exporter
            what={{ ...EXPORT, query }}
            name={`expirations-${query.from.slice(0, 10)}`}
            of={counts?.shareRead === 1 ? counts.total : undefined}
          />
          <PagedList
            page={page}
            cursor={cursor}
            go={(next) => void navigate({ search: (old) => ({ ...old, cursor: next }), resetScroll: false })}
            empty={
              <Empty title="Nothing expired here">
                Choose a longer window, or <Link to="/reservations">look at live reservations</Link>.
              </Empty>
            }
          >
            <ExpirationTable rows={page.rows ?? []} />
          </PagedList>
        </Panel>
      </div>
    </>
  );
}

function Filters({
  search,
  window,
  change,
}: {
  search: FilterChange<(typeof FILTERS)[number]>;
  window: { readonly from: string; readonly to: string };
  change: (filters: Change) => void;
}): ReactNode {
  const { tenant, scope, state } = search;
  const set = useSetters(FILTERS, change);
  return (
    <FilterBar filters={search} names={FILTERS} change={change}>
      <TenantFilter value={tenant} onChange={set.tenant} />
      <TextFilter label="Scope, or one above it" value={scope} onChange={set.scope} wide />
      <ChoiceFilter
        label="State"
        all="Expired"
        value={state}
        choices={{ QUARANTINED: 'Quarantined' }}
        onChange={set.state}
      />
      <TimeFilter
        label="From"
        value={window.from}
        onChange={(value) => change({ last: undefined, from: value, to: window.to })}
      />
      <TimeFilter
        label="To"
        value={window.to}
        onChange={(value) => change({ last: undefined, from: window.from, to: value })}
      />
    </FilterBar>
  );
}

const wordFor = (state: string | undefined): string => (state === undefined ? 'expired' : 'quarantined');

const WINDOW_BUTTONS: readonly (readonly [label: string, to: (shown: Window) => Window])[] = [
  ['Earlier', (shown) => moved(shown, -1)],
  ['Later', (shown) => moved(shown, 1)],
  ['Zoom in', (shown) => zoomed(shown, 1 / 2)],
  ['Zoom out', (shown) => zoomed(shown, 2)],
];

function progressOf(counts: Counts | undefined): string {
  if (counts === undefined) {
    return 'counting';
  }
  return counts.shareRead < 1 ? `counting, ${percentOf(Math.floor(counts.shareRead * 100) / 100)} read` : '';
}
