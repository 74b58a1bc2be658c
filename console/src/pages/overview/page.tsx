import type { ReactNode } from 'react';
import { useLive } from '../../api/live';
import { EndingCredits } from '../../parts/ending-credits';
import { PageHead } from '../../parts/panel';
import { AsOf } from '../../parts/time';
import { useTitle } from '../../parts/title';
import { ActivityPanel } from './activity-panel';
import { FailingWebhooks, TightBudgets } from './attention';
import { InFlight, Memory, Sweeper } from './gauges';
import { ReadinessNotice } from './readiness';

/** What an operator wants to know first: is it healthy, what is it doing, and what needs attention. */
export function Overview(): ReactNode {
  useTitle('Overview');
  const { snapshot, isLive } = useLive();
  const isRecorded = snapshot?.records_activity !== false;
  return (
    <>
      <PageHead title="Overview">
        {snapshot !== undefined && <AsOf at={snapshot.at_ms} />}
        <span className={`pill ${isLive ? 'good' : 'warn'}`} role="status">
          <span className="dot" />
          {isLive ? 'Live' : snapshot === undefined ? 'Connecting' : 'Not live'}
        </span>
      </PageHead>
      <div className="stack">
        <ReadinessNotice readiness={snapshot?.readiness} />
        <ActivityPanel activity={snapshot?.activity} isRecorded={isRecorded} />
        <div className="grid">
          <InFlight sweeper={snapshot?.sweeper} />
          <Sweeper sweeper={snapshot?.sweeper} lateness={snapshot?.activity?.lateness} />
          <Memory
            readiness={snapshot?.readiness}
            samples={isRecorded ? (snapshot?.memory ?? []) : undefined}
          />
        </div>
        <div className="grid" style={{ alignItems: 'start' }}>
          <TightBudgets />
          <FailingWebhooks />
          <EndingCredits />
        </div>
      </div>
    </>
  );
}
