import { deriveScopes } from '../../src/ledger/scopes.js';
import { chargeDebit, chargeHold } from './model-charge.js';
import { OperatedModel } from './model-operators.js';
import { type ModelCharge, type RefundRequest, takeOut } from './model-refunds.js';
import {
  awaitingOf,
  budgetsAt,
  deadlineOf,
  dueOf,
  isOver,
  leadOf,
  otherUnits,
  policyOf,
  refusalOf,
  shortOf,
  type CommitRequest,
  type DebitRequest,
  type DecideRequest,
  type ExtendRequest,
  type ModelBudget,
  type ModelHold,
  type ModelTenant,
  type ReserveRequest,
  type SettleRequest,
} from './model-records.js';

/**
 * Stores an operation's reply under its key. If there is a lease, a replay recomputes the rest of it, which
 * follows the lease's end in the reply.
 */
type Remember = (reply: readonly string[], lease?: Lease) => string[];

interface Lease {
  readonly hold: ModelHold;
  readonly expiresAt: number;
}

interface Outcome {
  readonly payload: string;
  readonly reply: readonly string[];
  readonly lease?: Lease | undefined;
  /** The time of the decision. */
  readonly at: number;
}

/** The refusals before a reserve looks at budgets. */
const UNREAD = new Set(['IDEMPOTENCY_MISMATCH', 'TENANT_SUSPENDED', 'TENANT_CLOSED']);

/** A reply as it would be returned now, with 'fresh' or 'replay' after its first word. */
function shown({ reply, lease }: Outcome, which: 'fresh' | 'replay', now: number): string[] {
  const [word = '', ...rest] = reply;
  if (lease === undefined) {
    return [word, which, ...rest];
  }
  const end = rest.indexOf(String(lease.expiresAt)) + 1;
  return [word, which, ...rest.slice(0, end), leadOf(lease.hold, lease.expiresAt, now), ...rest.slice(end)];
}

/**
 * The ledger as the protocol describes it, in its simplest form: nothing is stored that can be computed.
 * Reserved is the sum of the live holds, and remaining is allocated - spent - reserved - debt, computed each
 * time.
 *
 * Every operation returns the reply that its script must give, appends to `events` what must be emitted, and
 * sets `touched` if anything other than the event log may change.
 */
export class LedgerModel extends OperatedModel {
  private readonly outcomes = new Map<string, Outcome>();
  /** By the part of their ids that the client gives. */
  readonly debits = new Map<string, ModelCharge>();
  /** Of `budgets`, those that a refusal names: in a rehearsal, without those that only it would make. */
  private made: readonly ModelBudget[] = this.budgets;

  /** A copy of the current model, to return to. */
  copy(): LedgerModel {
    return Object.assign(new LedgerModel(), structuredClone({ ...this }));
  }

  /** Forgets holds and replies that are so old that nobody asks for them any more. */
  forget(now: number, keptMs: number): void {
    for (const [key, { at }] of this.outcomes) {
      if (now - at < keptMs) {
        break;
      }
      this.outcomes.delete(key);
    }
    for (const hold of [...this.holds.values()].filter(({ state }) => state !== 'ACTIVE')) {
      hold.seenEndedAt ??= now;
      if (now - hold.seenEndedAt >= keptMs) {
        this.holds.delete(hold.id);
      }
    }
  }

  reserve(request: ReserveRequest, now: number): string[] {
    const { tenant: owner, subject, unit, amount, dryRun } = request;
    const { key, id: _, ...payload } = request;
    return this.once(['reserve', owner, key], payload, now, (remember) => {
      const scopes = deriveScopes(subject, owner);
      const tenant = this.tenants.get(owner);
      const deny = (reason: string, refusal: string[]): string[] => {
        this.events.push(`reservation.denied ${owner} ${refusal[1] ?? scopes.at(-1)} ${reason}`);
        return dryRun ? remember(['DENY', reason]) : refusal;
      };
      if (tenant?.status === 'SUSPENDED') {
        return ['TENANT_SUSPENDED'];
      }
      if (tenant?.status === 'CLOSED') {
        return deny('TENANT_CLOSED', ['TENANT_CLOSED']);
      }
      const budgets = this.found(owner, scopes, unit, now);
      if (budgets.length === 0) {
        const mismatch = otherUnits(this.made, scopes);
        return mismatch ?? deny('BUDGET_NOT_FOUND', ['NOT_FOUND']);
      }
      const refusal = refusalOf(budgets, amount, (budget) => this.remainingOf(budget));
      if (refusal?.[0] === 'BUDGET_EXCEEDED') {
        const reclaimed = this.reclaimed(now);
        if (reclaimed !== undefined) {
          return reclaimed;
        }
      }
      if (refusal !== undefined) {
        return deny(refusal[0] as string, refusal);
      }
      return dryRun
        ? this.rehearse(budgets, amount, remember)
        : this.makeHold(request, budgets, tenant, now, remember);
    });
  }

  /**
   * Each reserve on what those before it would have left, and then all of them, or none. A refusal leaves its event and what time has made due.
   * The reply is that of the refused one with its place, or those of all.
   */
  reserveSet(requests: readonly ReserveRequest[], now: number): string[] {
    const rehearsal = this.copy();
    // A budget that is only made if all are granted is not named as one in another unit.
    rehearsal.made = this.budgets;
    for (const [place, request] of requests.entries()) {
      const reply = rehearsal.reserve(request, now);
      if (reply[1] !== 'replay' && !UNREAD.has(reply[0] as string)) {
        this.current(
          budgetsAt(this.budgets, deriveScopes(request.subject, request.tenant), request.unit),
          now,
        );
      }
      if (reply[0] === 'RECLAIMED') {
        return [...(this.reclaimed(now) as string[]), String(place)];
      }
      if (reply[0] !== 'ALLOW') {
        this.events.push(...rehearsal.events.filter((event) => event.startsWith('reservation.denied ')));
        return [...reply, String(place)];
      }
    }
    return requests.flatMap((request) => this.reserve(request, now));
  }

  commit(request: CommitRequest, now: number): string[] {
    const { tenant, id, key, unit, actual } = request;
    return this.once(['commit', tenant, id, key], { unit, actual }, now, (remember) => {
      const hold = this.open(request, now);
      if (Array.isArray(hold)) {
        return hold;
      }
      if (now > deadlineOf(hold)) {
        return ['RESERVATION_EXPIRED'];
      }
      if (unit !== hold.unit) {
        return ['UNIT_MISMATCH', hold.unit, hold.leaf];
      }
      const stopped = this.current(hold.budgets, now).find(({ status }) => status !== 'ACTIVE');
      if (stopped !== undefined) {
        return [`BUDGET_${stopped.status}`, stopped.scope];
      }
      const overage = actual - hold.amount;
      const isShort =
        overage > 0n &&
        hold.policy !== 'REJECT' &&
        shortOf(hold.budgets, overage, (budget) => this.remainingOf(budget)) !== undefined;
      const reclaimed = isShort ? this.reclaimed(now) : undefined;
      if (reclaimed !== undefined) {
        return reclaimed;
      }
      const charge = chargeHold(hold, actual, (budget) => this.remainingOf(budget));
      if (Array.isArray(charge)) {
        return charge;
      }
      this.events.push(...charge.events);
      [hold.charged, hold.chargedAt] = [BigInt(charge.figures[0] as string), now];
      const reply = ['COMMITTED', ...charge.figures, ...this.balances(hold.budgets)];
      return remember(reply);
    });
  }

  debit(request: DebitRequest, now: number): string[] {
    const { tenant: owner, subject, unit, actual } = request;
    const { key, id, ...payload } = request;
    return this.once(['debit', owner, key], payload, now, (remember) => {
      const [tenant, scopes] = [this.tenants.get(owner), deriveScopes(subject, owner)];
      const deny = (refusal: string[], scope = refusal[1], reason = refusal[0]): string[] => {
        this.events.push(`custom.direct_debit.denied ${owner} ${scope ?? scopes.at(-1)} ${reason}`);
        return refusal;
      };
      if (tenant !== undefined && tenant.status !== 'ACTIVE') {
        return tenant.status === 'CLOSED' ? deny(['TENANT_CLOSED']) : ['TENANT_SUSPENDED'];
      }
      const budgets = this.found(owner, scopes, unit, now);
      const stopped = budgets.find(({ status }) => status !== 'ACTIVE');
      if (budgets.length === 0 || stopped !== undefined) {
        return stopped
          ? deny([`BUDGET_${stopped.status}`, stopped.scope, String(this.remainingOf(stopped))])
          : (otherUnits(this.budgets, scopes) ?? deny(['NOT_FOUND'], undefined, 'BUDGET_NOT_FOUND'));
      }
      const isShort = shortOf(budgets, actual, (budget) => this.remainingOf(budget)) !== undefined;
      const reclaimed = isShort ? this.reclaimed(now) : undefined;
      if (reclaimed !== undefined) {
        return reclaimed;
      }
      const policy = policyOf(request.policy, budgets, tenant);
      const charge = chargeDebit(request, policy, budgets, (budget) => this.remainingOf(budget));
      if (Array.isArray(charge)) {
        return charge[0] === 'INT64_OVERFLOW' ? charge : deny(charge);
      }
      this.bear(owner, budgets);
      this.events.push(...charge.events, `custom.direct_debit.applied ${owner} ${scopes.at(-1)} -`);
      const [charged, , , , , debt] = charge.figures as [string, string, string, string, string, string];
      this.debits.set(id, {
        ...{ id, tenant: owner, leaf: scopes.at(-1) as string, unit, budgets },
        ...{ charged: BigInt(charged), chargedAt: now },
      });
      const reply = ['APPLIED', id, charged, policy, debt, ...this.balances(budgets)];
      return remember(reply);
    });
  }

  /** Of a reservation, or of a direct debit. */
  refund(request: RefundRequest, now: number): string[] {
    const { tenant, id, key, unit, amount } = request;
    return this.once(['refund', tenant, id, key], { unit, amount }, now, (remember) => {
      const charge = this.debits.has(id) ? this.openDebit(request) : this.ended(request, now);
      if (Array.isArray(charge)) {
        return charge;
      }
      const { charged = 0n, chargedAt = 0, refunded = 0n, budgets, leaf } = charge;
      if (unit !== charge.unit) {
        return ['UNIT_MISMATCH', charge.unit, leaf];
      }
      if (charged - refunded < amount) {
        const state = 'state' in charge ? String(charge.state) : 'APPLIED';
        return ['REFUND_EXCEEDED', state, String(charged), String(refunded)];
      }
      charge.refunded = refunded + amount;
      if ('seenEndedAt' in charge) {
        charge.seenEndedAt = now;
      }
      const returned = this.current(budgets, now).map((budget) => {
        const wasOver = isOver(budget);
        const grown = takeOut(budget, amount, chargedAt);
        if (wasOver && !isOver(budget)) {
          this.events.push(`budget.over_limit_exited ${charge.tenant} ${budget.scope} -`);
        }
        return [budget.scope, this.figures(budget), String(grown)];
      });
      const [kind, subject] = 'state' in charge ? ['reservation', id] : ['direct_debit', '-'];
      this.events.push(`custom.${kind}.refunded ${charge.tenant} ${leaf} ${subject}`);
      return remember(['REFUNDED', charge.tenant, String(charge.refunded), ...returned.flat()]);
    });
  }

  /** What a reserve would get. */
  decide(request: DecideRequest, now: number): string[] {
    const { tenant: owner, subject, unit, amount } = request;
    const { key, ...payload } = request;
    return this.once(['decide', owner, key], payload, now, (remember) => {
      const [status, scopes] = [this.tenants.get(owner)?.status, deriveScopes(subject, owner)];
      const deny = (reason: string, scope = scopes.at(-1)): string[] => {
        this.events.push(`reservation.denied ${owner} ${scope} ${reason}`);
        return remember(['DENY', reason]);
      };
      if (status === 'SUSPENDED') {
        return ['TENANT_SUSPENDED'];
      } else if (status === 'CLOSED') {
        return deny('TENANT_CLOSED');
      }
      const budgets = this.found(owner, scopes, unit, now);
      if (budgets.length === 0) {
        return otherUnits(this.budgets, scopes) ?? deny('BUDGET_NOT_FOUND');
      }
      const [reason, scope] = refusalOf(budgets, amount, (budget) => this.remainingOf(budget)) ?? [];
      const reclaimed = reason === 'BUDGET_EXCEEDED' ? this.reclaimed(now) : undefined;
      return reclaimed ?? (reason === undefined ? remember(['ALLOW']) : deny(reason, scope));
    });
  }

  release(request: SettleRequest, now: number): string[] {
    const { tenant, id, key } = request;
    return this.once(['release', tenant, id, key], {}, now, (remember) => {
      const hold = this.open(request, now);
      if (Array.isArray(hold)) {
        return hold;
      }
      this.current(hold.budgets, now);
      hold.state = 'RELEASED';
      const reply = ['RELEASED', String(hold.amount), hold.unit, ...this.balances(hold.budgets)];
      return remember(reply);
    });
  }

  extend(request: ExtendRequest, now: number): string[] {
    const { tenant, id, key, byMs } = request;
    return this.once(['extend', tenant, id, key], { byMs }, now, (remember) => {
      const hold = this.open(request, now);
      if (Array.isArray(hold)) {
        return hold;
      }
      if (now > hold.expiresAt) {
        return ['RESERVATION_EXPIRED'];
      }
      if (hold.extensions >= hold.maxExtensions) {
        return ['MAX_EXTENSIONS_EXCEEDED', String(hold.maxExtensions)];
      }
      hold.extensions += 1;
      hold.expiresAt += Math.min(byMs, this.tenants.get(hold.tenant)?.maxTtlMs ?? byMs);
      const { expiresAt } = hold;
      return remember(['ACTIVE', String(expiresAt)], { hold, expiresAt });
    });
  }

  /** The outcomes, three words for each. */
  expirePage(ids: readonly string[], now: number): string[] {
    const due = dueOf(this.holds, now).filter(({ id }) => ids.includes(id));
    due.sort((one, other) => ids.indexOf(one.id) - ids.indexOf(other.id));
    this.currentOf(due, now);
    return ['JUDGED', String(now), ...ids.flatMap((id) => [...this.expire(id, now), '', ''].slice(0, 3))];
  }

  /** An operator's cleanup: oldest first, for one tenant or all. */
  cleanup(
    { tenant, limit, dryRun }: { tenant: string; limit: number; dryRun: boolean },
    now: number,
  ): string[] {
    const waiting = awaitingOf(this.holds, now)
      .filter((hold) => tenant === '' || hold.tenant === tenant)
      .slice(0, limit);
    this.currentOf(dryRun ? [] : waiting, now);
    const outcomes = waiting.map((hold) => [
      hold.id,
      ...(dryRun
        ? ['WOULD_EXPIRE', hold.tenant, String(deadlineOf(hold))]
        : this.expireHold(hold, now).slice(0, 3)),
    ]);
    return ['CLEANED', String(now), ...outcomes.flat()];
  }

  expire(id: string, now: number): string[] {
    const hold = this.holds.get(id);
    if (hold === undefined) {
      return ['NOT_FOUND'];
    }
    if (hold.state !== 'ACTIVE') {
      return ['SKIP', hold.state];
    }
    if (now <= deadlineOf(hold)) {
      return ['SKIP', 'in_grace_period', String(deadlineOf(hold))];
    }
    if (hold.expiryPolicy === 'MANUAL_CLEANUP') {
      return ['SKIP', 'awaiting_cleanup', String(deadlineOf(hold))];
    }
    const outcome = this.expireHold(hold, now);
    return outcome[0] === 'QUARANTINED' ? outcome.slice(0, 3) : [...outcome, String(now)];
  }

  get(id: string, tenant: string, now: number): string[] {
    const hold = this.holds.get(id);
    if (hold === undefined) {
      return ['NOT_FOUND'];
    }
    if (hold.tenant !== tenant) {
      return ['FORBIDDEN'];
    }
    const expired = this.expiredOnAccess(hold, now);
    return expired === undefined || expired[0] === 'QUARANTINED' ? ['FOUND', hold.state] : expired;
  }

  /**
   * Runs an operation unless there is a reply under its key. `remember` stores the reply, with 'fresh' or
   * 'replay' inserted.
   */
  private once(
    name: readonly string[],
    payload: object,
    now: number,
    run: (remember: Remember) => string[],
  ): string[] {
    const key = name.join(' ');
    const text = JSON.stringify(payload, (_, value: unknown) =>
      typeof value === 'bigint' ? String(value) : value,
    );
    const earlier = this.outcomes.get(key);
    if (earlier !== undefined) {
      return earlier.payload === text ? shown(earlier, 'replay', now) : ['IDEMPOTENCY_MISMATCH'];
    }
    return run((reply, lease) => {
      this.touched = true;
      const outcome = { payload: text, reply, lease, at: now };
      this.outcomes.set(key, outcome);
      return shown(outcome, 'fresh', now);
    });
  }

  private rehearse(budgets: readonly ModelBudget[], amount: bigint, remember: Remember): string[] {
    const figures = budgets.flatMap((budget) => {
      const [, , ...others] = this.figures(budget).split(',');
      return [
        budget.scope,
        [this.remainingOf(budget) - amount, this.reservedOf(budget) + amount, ...others].join(),
      ];
    });
    return remember(['ALLOW_DRY_RUN', ...figures]);
  }

  private makeHold(
    request: ReserveRequest,
    budgets: readonly ModelBudget[],
    tenant: ModelTenant | undefined,
    now: number,
    remember: Remember,
  ): string[] {
    const { id, tenant: owner, unit, amount, graceMs } = request;
    const asked = request.ttlMs === '' ? (tenant?.defaultTtlMs ?? 60_000) : request.ttlMs;
    const expiresAt = now + Math.min(asked, tenant?.maxTtlMs ?? asked);
    const policy = policyOf(request.policy, budgets, tenant);
    const leaf = deriveScopes(request.subject, owner).at(-1) as string;
    const before = budgets.map((budget) => this.remainingOf(budget));
    const hold: ModelHold = {
      id,
      tenant: owner,
      leaf,
      unit,
      amount,
      policy,
      budgets,
      graceMs,
      expiresAt,
      expiryPolicy: tenant?.expiryPolicy ?? 'AUTO_RELEASE',
      maxExtensions: tenant?.maxExtensions ?? 10,
      charge: request.charge ?? (amount * BigInt(tenant?.chargePercent ?? 0) + 99n) / 100n,
      extensions: 0,
      state: 'ACTIVE',
    };
    this.bear(owner, budgets);
    this.holds.set(id, hold);
    const emptied = budgets.filter(
      (budget, index) => (before[index] as bigint) > 0n && this.remainingOf(budget) === 0n,
    );
    this.events.push(...emptied.map(({ scope }) => `budget.exhausted ${owner} ${scope} ${id}`));
    const balances = this.balances(budgets);
    return remember(['ALLOW', id, String(expiresAt), policy, ...balances], { hold, expiresAt });
  }

  private balances(budgets: readonly ModelBudget[]): string[] {
    return budgets.flatMap((budget) => [budget.scope, this.figures(budget)]);
  }

  private expiredOnAccess(hold: ModelHold, now: number): string[] | undefined {
    if (hold.state === 'EXPIRED') {
      return ['RESERVATION_EXPIRED'];
    }
    if (hold.state === 'ACTIVE' && now > deadlineOf(hold) && hold.expiryPolicy !== 'MANUAL_CLEANUP') {
      const [word, ...rest] = this.expireHold(hold, now);
      const how = word === 'CHARGED' ? 'charged' : 'now';
      return word === 'QUARANTINED' ? [word, ...rest] : ['RESERVATION_EXPIRED', how, ...rest, String(now)];
    }
    return undefined;
  }

  /** The hold for its owner, once time has ended it. */
  private ended(request: SettleRequest, now: number): ModelCharge | string[] {
    const opened = this.open(request, now);
    const hasEnded = Array.isArray(opened) && /^RESERVATION_(?:FINALIZED,\w+|EXPIRED)$/.test(opened.join());
    return hasEnded ? (this.holds.get(request.id) as ModelHold) : opened;
  }

  private openDebit({ id, tenant }: SettleRequest): ModelCharge | string[] {
    const debit = this.debits.get(id) as ModelCharge;
    if (debit.tenant !== tenant) {
      return ['FORBIDDEN'];
    }
    return this.tenants.get(tenant)?.status === 'CLOSED' ? ['TENANT_CLOSED'] : debit;
  }

  /** The hold if its owner may still settle it, or else the refusal. */
  private open({ id, tenant }: SettleRequest, now: number): ModelHold | string[] {
    const hold = this.holds.get(id);
    if (hold === undefined) {
      return ['NOT_FOUND'];
    }
    if (hold.tenant !== tenant) {
      return ['FORBIDDEN'];
    }
    if (this.tenants.get(hold.tenant)?.status === 'CLOSED') {
      return ['TENANT_CLOSED'];
    }
    const expired = this.expiredOnAccess(hold, now);
    if (expired !== undefined) {
      return expired;
    }
    return hold.state === 'ACTIVE' ? hold : ['RESERVATION_FINALIZED', hold.state];
  }
}
