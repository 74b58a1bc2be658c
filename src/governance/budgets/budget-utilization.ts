import { Injectable } from '@nestjs/common';
import { RedisService, tenantIndexKey } from '../../redis/index.js';
import { MetricsRegistry } from '../../telemetry/index.js';
import { PartitionJobs, type PartitionRun } from '../../worker/index.js';
import { GOVERNANCE_METRICS } from '../governance.metrics.js';

const LOOK_MS = 60_000;
/** Budgets a run of the script: about a millisecond of Redis' time. */
const BUDGETS_A_RUN = 250;
/** Budgets of which less is used need nobody's attention yet. */
const SHARE = 0.8;
/** Each budget is a series of its own, so only those of which most is used are shown. */
const MOST_SERIES = 100;

interface Place {
  readonly tenant: string;
  readonly after: string;
}
const START: Place = { tenant: '', after: '' };

interface UsedBudget {
  readonly share: number;
  readonly labels: { readonly tenant: string; readonly scope: string; readonly unit: string };
}

/**
 * Shows in the metrics which budgets are almost used up. Every instance with the role walks through all budgets, so each shows the same, as
 * of its last pass.
 */
@Injectable()
export class BudgetUtilization {
  readonly look: PartitionRun;
  private readonly counts = this.metrics.of(GOVERNANCE_METRICS);
  /** The budgets that this pass has found, those of which most is used first. */
  private found: UsedBudget[] = [];

  constructor(
    private readonly redis: RedisService,
    jobs: PartitionJobs,
    private readonly metrics: MetricsRegistry,
  ) {
    this.look = jobs.add<Place>({
      name: 'budget_utilization',
      intervalMs: LOOK_MS,
      undone: 'budgets not looked at',
      visit: (tag, place) => this.lookAt(tag, place),
      ended: () => this.show(),
    });
  }

  private async lookAt(tag: string, place = START): Promise<Place | undefined> {
    const { nextTenant, nextAfter, budgets } = await this.redis.scripts.call(
      'used_budgets',
      { tenantIndex: tenantIndexKey(tag) },
      { ...place, share: SHARE, limit: BUDGETS_A_RUN },
    );
    const used = budgets.map(({ share, ...labels }) => ({ share: Number(share), labels }));
    this.found = [...this.found, ...used].sort((one, other) => other.share - one.share).slice(0, MOST_SERIES);
    return nextTenant === undefined ? undefined : { tenant: nextTenant, after: nextAfter ?? '' };
  }

  private show(): void {
    this.counts.utilization.replace(this.found.map(({ share, labels }) => [share, labels]));
    this.found = [];
  }
}
