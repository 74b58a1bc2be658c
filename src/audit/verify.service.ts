import { Injectable } from '@nestjs/common';
import type { Answer } from '../answers/index.js';
import { mayActFor, type Tenants } from '../auth/index.js';
import { fingerprintOf, Refusal } from '../ledger/index.js';
import {
  budgetIndexKey,
  RedisService,
  reservationIndexKey,
  tagOfPartition,
  tagOfTenant,
  tenantIndexKey,
  tenantKey,
} from '../redis/index.js';
import { MetricsRegistry } from '../telemetry/index.js';
import { pageEnd, placeAfter, type Position } from '../wire/index.js';
import {
  type BudgetName,
  type Drift,
  driftOf,
  type NamedHold,
  type Reading,
  TenantReader,
  type UnreadableHold,
  type WalkedHolds,
} from './tenant-reader.js';
import { AUDIT_METRICS } from './audit.metrics.js';
import { type JournalFault, JournalReader } from './journal-reader.js';

/** Readings of the budgets, at different instants. With this many, even a busy budget has a reading at which nothing changed. */
const ROUNDS = 8;
/** A page starts no further tenant after this time. A tenant is never split across pages. */
const PAGE_BUDGET_MS = 3000;
const TENANTS_A_READ = 100;
/** The most reservations listed for one budget. The report always includes their number. */
const MAX_LISTED = 100;
const FINGERPRINT = fingerprintOf(['verify']);

interface BudgetDrift {
  readonly tenantId: string;
  readonly budget: BudgetName;
  readonly drift: Drift;
  readonly holds: readonly NamedHold[];
}

interface TenantReport {
  readonly budgets: number;
  readonly drifts: readonly BudgetDrift[];
  readonly unreadable: readonly UnreadableHold[];
  readonly journal: readonly JournalFault[];
}

type Report = Answer<'VerifyReport'>;

/** GET /ops/verify: recomputes every budget's `reserved` from its live reservations, the invariant at every scope, and the journal. */
@Injectable()
export class VerifyService {
  constructor(
    private readonly redis: RedisService,
    private readonly reader: TenantReader,
    private readonly journals: JournalReader,
    private readonly metrics: MetricsRegistry,
  ) {}

  /**
   * Verifies one tenant, or as many tenants as fit into one page's time.
   * @param tenants that the operator is confined to
   * @throws Refusal INVALID_REQUEST for another query's cursor, TENANT_NOT_FOUND
   */
  async page(tenant: string | undefined, cursor: string | undefined, tenants: Tenants): Promise<Report> {
    const started = performance.now();
    const total = {
      tenants: 0,
      budgets: 0,
      drift: [] as Report['drift'][number][],
      unreadable: [] as Report['unreadable'][number][],
      journal: [] as Report['journal'][number][],
    };
    let next: Position | undefined;
    for await (const [partition, tenantId] of this.tenants(tenant, cursor, tenants)) {
      if (total.tenants > 0 && performance.now() - started > PAGE_BUDGET_MS) {
        next = { value: partition, id: tenantId };
        break;
      }
      const report = await this.verify(tenantId);
      const { verifiedBudgets, drifts, unreadable } = this.metrics.of(AUDIT_METRICS);
      verifiedBudgets.inc(report.budgets);
      drifts.inc(report.drifts.length + report.journal.length);
      unreadable.inc(report.unreadable.length);
      total.tenants += 1;
      total.budgets += report.budgets;
      total.drift.push(...report.drifts.map(driftView));
      total.unreadable.push(...report.unreadable.map((hold) => unreadableView(tenantId, hold)));
      total.journal.push(
        ...report.journal.map(({ chargeId: reservation_id, kind }) => ({
          tenant_id: tenantId,
          reservation_id,
          kind,
        })),
      );
    }
    const { id: deployment_id, restoredFrom } = this.redis.deployment;
    return {
      deployment_id,
      ...(restoredFrom === undefined ? {} : { restored_from: restoredFrom }),
      ok: total.drift.length + total.journal.length === 0,
      tenants: total.tenants,
      budgets: total.budgets,
      drift: total.drift,
      unreadable: total.unreadable,
      journal: total.journal,
      ...pageEnd(FINGERPRINT, next),
    };
  }

  /** The tenants by partition and creation, starting at the cursor's. */
  private async *tenants(
    only: string | undefined,
    cursor: string | undefined,
    tenants: Tenants,
  ): AsyncGenerator<[partition: number, tenantId: string]> {
    if (only !== undefined && only !== '') {
      await this.mustExist(only, tenants);
      yield [0, only];
      return;
    }
    const place = placeAfter(
      FINGERPRINT,
      cursor,
      ({ value }) => Number.isSafeInteger(value) && (value as number) >= 0,
    );
    const first = (place?.value as number | undefined) ?? 0;
    for (let partition = first; partition < this.redis.partitions; partition += 1) {
      const index = tenantIndexKey(tagOfPartition(partition));
      let rank = partition === first && place !== undefined ? await this.rankOf(index, place.id) : 0;
      for (;;) {
        const names = await this.redis.queries.command((client) =>
          client.zrange(index, rank, String(rank + TENANTS_A_READ - 1)),
        );
        for (const tenantId of names.filter((name) => mayActFor(tenants, name))) {
          yield [partition, tenantId];
        }
        if (names.length < TENANTS_A_READ) {
          break;
        }
        rank += names.length;
      }
    }
  }

  /**
   * A tenant that has lost its record still has budgets or reservations to verify.
   * @throws Refusal TENANT_NOT_FOUND: for a mistyped tenant, no drift would be good news.
   */
  private async mustExist(tenantId: string, tenants: Tenants): Promise<void> {
    const tag = tagOfTenant(tenantId, this.redis.partitions);
    const keys = [
      tenantKey(tag, tenantId),
      budgetIndexKey(tag, tenantId),
      reservationIndexKey(tag, tenantId),
    ];
    const exists = await this.redis.queries.command((client) => client.exists(keys));
    if (exists === 0 || !mayActFor(tenants, tenantId)) {
      throw new Refusal('TENANT_NOT_FOUND', 'there is no such tenant');
    }
  }

  /** Tenants are never removed, so the one that a cursor names still has a rank. */
  private async rankOf(index: string, tenantId: string): Promise<number> {
    return (await this.redis.queries.command((client) => client.zrank(index, tenantId))) ?? 0;
  }

  /** Checks a budget that does not match a second time, and reports it only if it still does not match. */
  private async verify(tenantId: string): Promise<TenantReport> {
    const first = await this.snapshot(tenantId, []);
    if (first.drifts.length === 0) {
      return first;
    }
    const suspects = new Set(first.drifts.map(({ budget }) => budget));
    const second = await this.snapshot(tenantId, [...suspects]);
    return {
      ...second,
      drifts: second.drifts.filter((found) => suspects.has(found.budget) && !isDrained(found)),
    };
  }

  private async snapshot(tenantId: string, names: readonly BudgetName[]): Promise<TenantReport> {
    const { readings, firstMs } = await this.reader.readBudgets(tenantId, ROUNDS);
    const passedMs = await this.journals.passedMs(tenantId);
    const walked = await this.reader.walkHolds(tenantId, firstMs, passedMs, names);
    // After a step back, instants do not tell which ends packing has passed.
    const journal = await this.journals.faultsOf(tenantId, walked.hasStepped ? new Map() : walked.ended);
    const budgets = new Set([...readings.keys(), ...walked.steady.keys()]);
    const drifts = [...budgets]
      .sort()
      .flatMap((budget) => driftsOf(tenantId, budget, readings.get(budget) ?? [], walked));
    return { budgets: readings.size, drifts, unreadable: walked.unreadable, journal };
  }
}

function driftsOf(
  tenantId: string,
  budget: BudgetName,
  readings: readonly Reading[],
  walked: WalkedHolds,
): BudgetDrift[] {
  const drift = driftOf(readings, {
    steady: walked.steady.get(budget) ?? 0n,
    moving: walked.moving.get(budget) ?? [],
    isUntimed: walked.hasStepped,
  });
  return drift === undefined ? [] : [{ tenantId, budget, drift, holds: walked.named.get(budget) ?? [] }];
}

/** Closing a tenant returns what its quarantined holds had reserved, but leaves their records as they are. */
function isDrained({ drift, holds }: BudgetDrift): boolean {
  const { kind, stored, expected } = drift;
  if (kind !== 'RESERVED' || stored?.status !== 'CLOSED') {
    return false;
  }
  const quarantined = holds.filter((hold) => hold.quarantined).reduce((sum, { amount }) => sum + amount, 0n);
  return (expected ?? 0n) - quarantined === stored.figures.reserved;
}

function driftView({ tenantId, budget, drift, holds }: BudgetDrift): Report['drift'][number] {
  const { kind, stored, expected } = drift;
  const [unit = '', scope = ''] = budget.split(' ');
  const actual = kind === 'INVARIANT' ? stored?.figures.remaining : stored?.figures.reserved;
  return {
    tenant_id: tenantId,
    scope,
    unit,
    kind,
    ...(stored === undefined ? {} : { stored: { ...stored.figures, status: stored.status } }),
    ...(kind === 'PERIOD' && { period_defect: stored?.periodDefect }),
    ...(kind === 'CREDITS' && { credit_defect: stored?.creditDefect }),
    ...(expected === undefined ? {} : { expected, difference: (actual ?? 0n) - expected }),
    reservation_count: holds.length,
    reservations: holds.slice(0, MAX_LISTED).map(({ reservationId, amount, quarantined }) => ({
      reservation_id: reservationId,
      amount,
      quarantined,
    })),
  };
}

function unreadableView(
  tenantId: string,
  { reservationId, reason, quarantined }: UnreadableHold,
): Report['unreadable'][number] {
  return { tenant_id: tenantId, reservation_id: reservationId, reason, quarantined };
}
