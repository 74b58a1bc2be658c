import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { Inject, Injectable } from '@nestjs/common';
import type { Answer } from '../answers/index.js';
import { EVENT_CATEGORIES, parseAmount, TooBusy, type Unit, UNITS } from '../ledger/index.js';
import { mayActFor, type Tenants } from '../auth/index.js';
import { RedisService, type SkippedNames, SkippedRecords } from '../redis/index.js';
import { LOGGER, type Logger, MetricsRegistry, type MetricsTable } from '../telemetry/index.js';
import { timeOf } from '../wire/index.js';
import { type Census, takeCensus, utilizationOf } from './census.js';
import { type EventSummary, EventWindow } from './event-window.js';

/** The most rows in each list. */
const LISTED = 10;
/** Up to this many records, every request counts them: 3 to 15 ms of Redis' time. */
const COUNTED_EACH_TIME = 2000;
/** Beyond that, counting takes at most this share of the time, however often it is asked for. 10,000 budgets are counted anew each 10 s. */
const SHARE_OF_TIME = 1 / 10;
const MIN_AGE_MS = 1000;
/** Figures that are older are of use to nobody who has just come: a request waits for newer ones as long as for the first. */
const OLD_MS = 10_000;
/** How long a request waits for newer figures than recent ones. */
const WAIT_FOR_NEWER_MS = 1000;
/** How long a request waits for the first figures. */
const WAIT_FOR_FIRST_MS = 20_000;
const RETRY_AFTER_S = 5;

interface Snapshot {
  readonly census: Census;
  readonly events: EventSummary;
  /** On the clock of this process. */
  readonly endedAt: number;
  readonly durationMs: number;
}

type OverviewAnswer = Answer<'AdminOverviewResponse'>;

export interface TenantSums {
  readonly body: Answer<'TenantSumsResponse'>;
  readonly skipped: SkippedNames;
}

export interface Overview {
  readonly body: OverviewAnswer;
  readonly skipped: SkippedNames;
}

const OVERVIEW_METRICS = {
  overviews: {
    name: 'holdfast_overviews_total',
    help: 'Overviews by their figures: fresh, from an earlier count, or none yet.',
    labels: ['figures'],
  },
} as const satisfies MetricsTable;

/**
 * The operators' overview: counts of all records, and the events of the last hour. Counting is linear, so large deployments are counted
 * in the background, and requests get the latest figures with the time they are from.
 */
@Injectable()
export class OverviewService {
  private readonly window = new EventWindow(this.redis, LISTED);
  private readonly counts = this.metrics.of(OVERVIEW_METRICS);
  /** Runs work outside of the request that starts it: others wait for it, too, and it must outlive the request. */
  private readonly detached = AsyncLocalStorage.snapshot();
  private latest: Snapshot | undefined;
  private running: Promise<void> | undefined;
  /** The next run, for requests that come while one is running: it may already have passed what they have changed. */
  private next: Promise<void> | undefined;

  constructor(
    private readonly redis: RedisService,
    private readonly skipped: SkippedRecords,
    @Inject(LOGGER) private readonly logger: Logger,
    private readonly metrics: MetricsRegistry,
  ) {}

  /**
   * AdminOverviewResponse of cycles-governance-admin-v0.1.25, with what cycles-governance-extensions-v0.1.26 asks for.
   * @throws TooBusy while everything is counted for the first time; StoreUnavailable
   */
  async read(waitForFirstMs = WAIT_FOR_FIRST_MS): Promise<Overview> {
    const snapshot = await this.snapshot(waitForFirstMs);
    return { body: overviewOf(snapshot), skipped: snapshot.census.skipped };
  }

  /**
   * The sums of tenants, from the same figures.
   * @param tenants that the operator is confined to; of others there is nothing
   * @throws TooBusy, StoreUnavailable
   */
  async sums(tenantIds: readonly string[], tenants: Tenants): Promise<TenantSums> {
    const { census } = await this.snapshot(WAIT_FOR_FIRST_MS);
    const rows = tenantIds
      .filter((tenantId) => mayActFor(tenants, tenantId))
      .map((tenantId) => ({ tenant_id: tenantId, sums: sumsOf(census, tenantId) }));
    return { body: { as_of: timeOf(census.atMs.toString()), tenants: rows }, skipped: census.skipped };
  }

  private async snapshot(waitForFirstMs: number): Promise<Snapshot> {
    const known = this.latest;
    if (known !== undefined && !isDue(known)) {
      return this.counted(known, 'earlier');
    }
    const waitsLong =
      known === undefined || known.census.examined <= COUNTED_EACH_TIME || ageOf(known) >= OLD_MS;
    const counted = this.count();
    const isFresh = await within(counted, waitsLong ? waitForFirstMs : WAIT_FOR_NEWER_MS);
    if (this.latest === undefined) {
      this.counts.overviews.inc({ figures: 'none' });
      throw new TooBusy('the records are being counted for the first time', RETRY_AFTER_S);
    }
    return this.counted(this.latest, isFresh ? 'fresh' : 'earlier');
  }

  private counted(snapshot: Snapshot, figures: 'fresh' | 'earlier'): Snapshot {
    this.counts.overviews.inc({ figures });
    return snapshot;
  }

  /** Starts a run, or shares the one that starts after the current one. */
  private count(): Promise<void> {
    if (this.running === undefined && this.next === undefined) {
      return this.start();
    }
    this.next ??= (this.running ?? Promise.resolve()).catch(() => undefined).then(() => this.start());
    return this.next;
  }

  private start(): Promise<void> {
    this.next = undefined;
    const run = this.detached(() => this.countAll()).finally(() => {
      this.running = undefined;
    });
    // Waiting requests get the error, too. They may have timed out.
    run.catch((error: unknown) => this.logger.warn({ err: error }, 'the overview could not be counted'));
    this.running = run;
    return run;
  }

  private async countAll(): Promise<void> {
    const startedAt = performance.now();
    const census = await takeCensus(this.redis, this.skipped, LISTED);
    const events = await this.window.refresh(census.atMs);
    const endedAt = performance.now();
    this.latest = { census, events, endedAt, durationMs: endedAt - startedAt };
  }
}

const ageOf = ({ endedAt }: Snapshot): number => performance.now() - endedAt;

function isDue(known: Snapshot): boolean {
  const { census, durationMs } = known;
  return (
    census.examined <= COUNTED_EACH_TIME || ageOf(known) >= Math.max(MIN_AGE_MS, durationMs / SHARE_OF_TIME)
  );
}

/** Whether the work ends in time. @throws what it fails with in time. */
async function within(work: Promise<void>, ms: number): Promise<boolean> {
  const over = new AbortController();
  const timeout = delay(ms, false, { signal: over.signal, ref: false }).catch(() => false);
  try {
    return await Promise.race([work.then(() => true), timeout]);
  } finally {
    over.abort();
  }
}

/** The members that cycles-governance-extensions-v0.1.26 asks for. */
function extensionsOf(
  { quotas }: Census,
  count: (name: string) => number,
): Pick<OverviewAnswer, 'quota_health' | 'access_control_stats'> {
  return {
    quota_health: {
      counters_above_80pct: count('quotas.above_80pct'),
      counters_at_limit: count('quotas.at_limit'),
      top_offenders: quotas.map((quota) => ({
        scope: quota.scope,
        action_kind: quota.actionKind,
        window: quota.window,
        used: quota.used,
        limit: quota.limit,
        utilization_pct: utilizationOf(quota),
      })),
    },
    access_control_stats: {
      policies_with_allow_list: count('policies.allowed'),
      policies_with_deny_list: count('policies.denied'),
    },
  };
}

function heldOf({ sums }: Census): Record<Unit, bigint> {
  const held = Object.fromEntries(UNITS.map((unit) => [unit, 0n])) as Record<Unit, bigint>;
  for (const ofTenant of sums.values()) {
    for (const [unit, { reserved }] of ofTenant) {
      held[unit] += reserved;
    }
  }
  return held;
}

/** The sums of a tenant, by unit. */
function sumsOf({ sums }: Census, tenantId: string): Answer<'TenantSumsResponse'>['tenants'][number]['sums'] {
  return [...(sums.get(tenantId) ?? [])].map(([unit, { allocated, spent, reserved, debt }]) => ({
    unit,
    ...{ allocated, spent, reserved, debt },
    remaining: allocated - spent - reserved - debt,
  }));
}

function overviewOf({ census, events }: Snapshot): OverviewAnswer {
  const count = (name: string): number => census.counts.get(name) ?? 0;
  return {
    as_of: timeOf(census.atMs.toString()),
    event_window_seconds: events.windowS,
    tenant_counts: {
      total: count('tenants'),
      active: count('tenants.ACTIVE'),
      suspended: count('tenants.SUSPENDED'),
      closed: count('tenants.CLOSED'),
      in_observe_mode: count('tenants.observe_mode'),
    },
    budget_counts: {
      total: count('budgets'),
      active: count('budgets.ACTIVE'),
      frozen: count('budgets.FROZEN'),
      closed: count('budgets.CLOSED'),
      over_limit: count('budgets.over_limit'),
      with_debt: count('budgets.with_debt'),
      by_unit: Object.fromEntries(UNITS.map((unit) => [unit, count(`unit.${unit}`)])),
    },
    over_limit_scopes: census.overLimit.map(({ scope, unit, allocated, remaining, debt }) => ({
      scope,
      unit,
      allocated: parseAmount(allocated),
      remaining: parseAmount(remaining),
      debt: parseAmount(debt),
    })),
    debt_scopes: census.indebted.map(({ scope, unit, debt, overdraftLimit }) => ({
      scope,
      unit,
      debt: parseAmount(debt),
      overdraft_limit: parseAmount(overdraftLimit),
    })),
    webhook_counts: {
      total: count('webhooks'),
      active: count('webhooks.ACTIVE'),
      disabled: count('webhooks.DISABLED'),
      with_failures: count('webhooks.with_failures'),
    },
    failing_webhooks: census.failing.map(({ subscriptionId, url, failures, failedAtMs }) => ({
      subscription_id: subscriptionId,
      url,
      consecutive_failures: failures,
      ...(failedAtMs === undefined ? {} : { last_failure_at: timeOf(failedAtMs) }),
    })),
    event_counts: {
      total_recent: events.total,
      by_category: Object.fromEntries(
        EVENT_CATEGORIES.map((name) => [name, events.byCategory.get(name) ?? 0]),
      ),
    },
    recent_denials: events.denials,
    recent_expiries: events.expiries,
    held_by_unit: heldOf(census),
    recent_denials_by_reason: Object.fromEntries(events.denialsByReason),
    ...extensionsOf(census, count),
  };
}
