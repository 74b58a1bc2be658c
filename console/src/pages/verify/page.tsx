import { Button } from '@mantine/core';
import { getRouteApi } from '@tanstack/react-router';
import { type ReactNode, useCallback } from 'react';
import { useOverview } from '../../api/overview';
import { COUNT } from '../../parts/numbers';
import { PageHead, Panel } from '../../parts/panel';
import { Progress } from '../../parts/progress';
import { Empty, Failure } from '../../parts/states';
import { formatDuration, Time } from '../../parts/time';
import { TenantFilter } from '../../parts/tenant-filter';
import { useTitle } from '../../parts/title';
import { Advice, DriftTable, ReservationFindings } from './findings';
import { resume, type Run, start, stop, useRun } from './run';

const route = getRouteApi('/verify');

/** Recomputes every budget from its live reservations, and shows what does not agree. */
export function Verify(): ReactNode {
  useTitle('Verify');
  const { tenant } = route.useSearch();
  const navigate = route.useNavigate();
  const run = useRun();
  const isRunning = run?.state === 'running';
  const setTenant = useCallback(
    (value: string | undefined) => void navigate({ search: { tenant: value }, replace: true }),
    [navigate],
  );
  return (
    <>
      <PageHead title="Verify">
        <Button size="compact-sm" disabled={isRunning} onClick={() => void start(tenant)}>
          {tenant === undefined ? 'Verify all tenants' : 'Verify this tenant'}
        </Button>
      </PageHead>
      <div className="filters">
        <TenantFilter label="Only the tenant" value={tenant} onChange={setTenant} />
      </div>
      {run === undefined ? (
        <section className="panel">
          <Empty title="Not verified from this page yet">
            A run reads every budget and every live reservation, and changes nothing. It may run beside
            traffic, and goes on while you look at other pages.
          </Empty>
        </section>
      ) : (
        <div className="stack">
          <Result run={run} />
          {run.drift.length > 0 && <DriftTable drift={run.drift} />}
          {run.drift.length > 0 && <Advice drift={run.drift} />}
          {run.journal.length + run.unreadable.length > 0 && (
            <ReservationFindings journal={run.journal} unreadable={run.unreadable} />
          )}
        </div>
      )}
    </>
  );
}

function verdictOf({
  state,
  drift,
  unreadable,
  journal,
  budgets,
}: Run): readonly [words: string, look: string] {
  if (drift.length > 0) {
    return [`${COUNT.format(drift.length)} of ${COUNT.format(budgets)} budgets drift`, 'bad'];
  }
  if (journal.length > 0) {
    return [`The journal of ${COUNT.format(journal.length)} reservations is wrong`, 'bad'];
  }
  if (unreadable.length > 0) {
    return ['No drift, but unreadable reservations', 'warn'];
  }
  return state === 'done' ? ['The ledger adds up', 'good'] : ['No drift so far', ''];
}

const STATES: Readonly<Record<Run['state'], string>> = {
  running: 'Running',
  done: 'Done',
  stopped: 'Stopped',
  failed: 'Failed',
};

function Result({ run }: { run: Run }): ReactNode {
  const count = useOverview().data?.tenant_counts.total;
  const { state, tenant, tenants, startedMs, endedMs } = run;
  const isRunning = state === 'running';
  const [words, look] = verdictOf(run);
  const of = tenant !== undefined ? 1 : state === 'done' ? tenants : count && Math.max(count, tenants);
  return (
    <Panel
      title={tenant === undefined ? 'All tenants' : `The tenant ${tenant}`}
      aside={
        <>
          {STATES[state]}
          {endedMs === undefined ? ' since ' : ` after ${formatDuration(endedMs - startedMs)}, from `}
          <Time at={startedMs} clock />
        </>
      }
    >
      <div className="stack">
        <div className="row" style={{ gap: 28 }}>
          <div>
            <div className="figure">{COUNT.format(run.budgets)}</div>
            <div className="muted small">budgets recomputed</div>
          </div>
          <span className={`pill ${look}`} role="status">
            {words}
          </span>
        </div>
        <Progress label="Verification" done={tenants} of={of} unit="tenants" isRunning={isRunning}>
          {isRunning ? (
            <Button size="compact-sm" variant="default" onClick={() => stop(run)}>
              Stop
            </Button>
          ) : (
            state !== 'done' && (
              <Button size="compact-sm" variant="default" onClick={() => void resume(run)}>
                Go on
              </Button>
            )
          )}
        </Progress>
        {run.error !== undefined && <Failure error={run.error} />}
      </div>
    </Panel>
  );
}
