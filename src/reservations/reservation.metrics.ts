import { Injectable } from '@nestjs/common';
import { Refusal } from '../ledger/index.js';
import { StoreUnavailable } from '../redis/index.js';
import { type LabelledCounter, MetricsRegistry } from '../telemetry/index.js';

/** How scripts end that meet a budget whose figures cannot be trusted: lua/lib/budget_figures.lua. */
const DAMAGED_BUDGET = 'corrupt budget record';

/** The reason label of a failed operation: its error code, or why the store gave no answer. */
function reasonOf(error: unknown): string {
  if (error instanceof Refusal) {
    return error.code;
  }
  if (error instanceof StoreUnavailable) {
    return error.reason === 'quarantine' ? 'QUARANTINED' : 'STORE_UNAVAILABLE';
  }
  return 'INTERNAL_ERROR';
}

/** The overage policy of a refused commit, where the error code implies it. */
const POLICY_OF_REFUSAL: Readonly<Record<string, string>> = {
  BUDGET_EXCEEDED: 'REJECT',
  OVERDRAFT_LIMIT_EXCEEDED: 'ALLOW_WITH_OVERDRAFT',
};

/** The actor_type label of a release. */
export type ReleaseActor = 'tenant' | 'admin_on_behalf_of';

/** Counters of the runtime plane, under the names that existing dashboards use. */
@Injectable()
export class ReservationMetrics {
  private readonly reserves: LabelledCounter;
  private readonly observations: LabelledCounter;
  private readonly commits: LabelledCounter;
  private readonly releases: LabelledCounter;
  private readonly extends: LabelledCounter;
  private readonly decisions: LabelledCounter;
  private readonly debits: LabelledCounter;
  private readonly overdrafts: LabelledCounter;
  private readonly unreadables: LabelledCounter;
  private readonly damagedBudgets: LabelledCounter;

  constructor(private readonly metrics: MetricsRegistry) {
    this.reserves = metrics.counter({
      name: 'cycles_reservations_reserve_total',
      help: 'Reserve requests by outcome.',
      labels: ['tenant', 'decision', 'reason', 'overage_policy'],
    });
    this.observations = metrics.counter({
      name: 'holdfast_observed_reserves_total',
      help: 'Reserve requests in observe mode by what would have become of them; they are not among the other reserves.',
      labels: ['tenant', 'decision', 'reason'],
    });
    this.commits = metrics.counter({
      name: 'cycles_reservations_commit_total',
      help: 'Commit requests by outcome.',
      labels: ['tenant', 'decision', 'reason', 'overage_policy'],
    });
    this.releases = metrics.counter({
      name: 'cycles_reservations_release_total',
      help: 'Release requests by outcome.',
      labels: ['tenant', 'actor_type', 'decision', 'reason'],
    });
    this.extends = metrics.counter({
      name: 'cycles_reservations_extend_total',
      help: 'Extend requests by outcome.',
      labels: ['tenant', 'decision', 'reason'],
    });
    this.decisions = metrics.counter({
      name: 'holdfast_decisions_total',
      help: 'Decide requests by outcome.',
      labels: ['tenant', 'decision', 'reason'],
    });
    this.debits = metrics.counter({
      name: 'cycles_events_total',
      help: 'Direct debits by outcome.',
      labels: ['tenant', 'decision', 'reason', 'overage_policy'],
    });
    this.overdrafts = metrics.counter({
      name: 'cycles_overdraft_incurred_total',
      help: 'Settlements that created debt.',
      labels: ['tenant'],
    });
    this.damagedBudgets = metrics.counter({
      name: 'holdfast_budgets_damaged_total',
      help: 'Operations that were stopped because the figures of a budget are damaged or out of balance.',
    });
    this.unreadables = metrics.counter({
      name: 'holdfast_reservations_unreadable_total',
      help: 'Damaged records found on reading, by what is wrong with them.',
      labels: ['reason'],
    });
  }

  private reasonOf(error: unknown): string {
    if (error instanceof Error && error.message.includes(DAMAGED_BUDGET)) {
      this.damagedBudgets.inc();
    }
    return reasonOf(error);
  }

  unreadable(reason: string): void {
    this.unreadables.inc({ reason });
  }

  /** @param isDryRun a dry run holds nothing and denies nothing, so it does not count as activity */
  reserved(tenant: string, decision: string, reason: string, policy: string, isDryRun: boolean): void {
    this.reserves.inc({ tenant, decision, reason, overage_policy: policy });
    if (reason === 'OK' && !isDryRun) {
      this.metrics.activity.add('reserves');
    }
  }

  observed(tenant: string, decision: string, reason: string): void {
    this.observations.inc({ tenant, decision, reason });
  }

  reserveFailed(tenant: string, error: unknown, policy: string, isDryRun: boolean): void {
    this.reserves.inc({ tenant, decision: 'DENY', reason: this.reasonOf(error), overage_policy: policy });
    if (error instanceof Refusal && !isDryRun) {
      this.metrics.activity.add('denials');
    }
  }

  committed(tenant: string, replayed: boolean, policy: string, debt: string): void {
    const reason = replayed ? 'IDEMPOTENT_REPLAY' : 'OK';
    this.commits.inc({
      tenant,
      decision: 'COMMITTED',
      reason,
      overage_policy: replayed ? 'UNKNOWN' : policy,
    });
    if (!replayed) {
      this.metrics.activity.add('commits');
      if (debt !== '0') {
        this.overdrafts.inc({ tenant });
      }
    }
  }

  commitFailed(tenant: string, error: unknown): void {
    const reason = this.reasonOf(error);
    this.commits.inc({
      tenant,
      decision: 'DENY',
      reason,
      overage_policy: POLICY_OF_REFUSAL[reason] ?? 'UNKNOWN',
    });
  }

  released(tenant: string, actor: ReleaseActor, replayed: boolean): void {
    const reason = replayed ? 'IDEMPOTENT_REPLAY' : 'OK';
    this.releases.inc({ tenant, actor_type: actor, decision: 'RELEASED', reason });
  }

  releaseFailed(tenant: string, actor: ReleaseActor, error: unknown): void {
    this.releases.inc({ tenant, actor_type: actor, decision: 'DENY', reason: this.reasonOf(error) });
  }

  extended(tenant: string, replayed: boolean): void {
    this.extends.inc({ tenant, decision: 'ACTIVE', reason: replayed ? 'IDEMPOTENT_REPLAY' : 'OK' });
  }

  extendFailed(tenant: string, error: unknown): void {
    this.extends.inc({ tenant, decision: 'DENY', reason: this.reasonOf(error) });
  }

  decided(tenant: string, decision: string, reason: string): void {
    this.decisions.inc({ tenant, decision, reason });
  }

  decideFailed(tenant: string, error: unknown): void {
    this.decisions.inc({ tenant, decision: 'ERROR', reason: this.reasonOf(error) });
  }

  debited(tenant: string, replayed: boolean, policy: string, debt: string): void {
    this.debits.inc({
      tenant,
      decision: 'APPLIED',
      reason: replayed ? 'IDEMPOTENT_REPLAY' : 'OK',
      overage_policy: policy,
    });
    if (!replayed && debt !== '0') {
      this.overdrafts.inc({ tenant });
    }
  }

  debitFailed(tenant: string, error: unknown, policy: string): void {
    this.debits.inc({ tenant, decision: 'DENY', reason: this.reasonOf(error), overage_policy: policy });
  }
}
