import { INT64_MAX } from '../../src/ledger/amount.js';
import { debit, decide } from '../support/admission-client.js';
import { LedgerClient, randomText } from '../support/ledger-client.js';
import {
  chargedBy,
  faultsOf,
  isCrossing,
  type LedgerState,
  linesOf,
  readLedger,
  snapshot,
} from '../support/ledger-state.js';
import { LedgerModel } from './model.js';
import {
  chargeField,
  type CommitRequest,
  type DebitRequest,
  type DecideRequest,
  type ExtendRequest,
  type ModelBudget,
  type ReserveRequest,
  type SettleRequest,
} from './model-records.js';
import type { GroupableOperation, Operation, TemplateChange, World } from './operations.js';
import { deleteTemplate, setTemplate } from '../support/template-client.js';
import { isRollover } from './model-periods.js';
import {
  comparedPeriods,
  comparedReads,
  firstPeriod,
  passed,
  periodCall,
  storePeriod,
} from './play-periods.js';
import { comparedWindows, firstWindows, operatorCall, passedWindow, storeWindows } from './play-operators.js';
import { PlayedRefunds } from './play-refunds.js';
import { reserveSet } from '../support/reservation-sets.js';
import { differences, stateDifferences } from './differences.js';
import { changedKeys, instantOf, told, withoutAdvice } from './readings.js';

const UNKNOWN_HOLD = 'rsv_unknown';

/** A call of a script, and the model's reply to the same request. */
export interface Call {
  readonly send: (client: LedgerClient) => Promise<string[]>;
  readonly judge: (model: LedgerModel, now: number) => string[];
}

/** A request that can be repeated with the same payload, or with a different one under the same key. */
export type Request = (altered: boolean) => Call;

/** Plays a world against the real scripts and the model, and compares the two after each step. */
export class Play {
  readonly replies = new Map<string, number>();
  private readonly model = new LedgerModel();
  private readonly requests: Request[] = [];
  private readonly refunds: PlayedRefunds;
  private readonly tenants: readonly string[];
  private count = 0;
  private step = 0;
  /** An instant before the first operation. */
  private began = 0;

  constructor(
    private readonly clients: readonly LedgerClient[],
    private readonly world: World,
  ) {
    this.tenants = world.tenants.map((_, index) => `${this.first.tenant}-${index}`);
    this.refunds = new PlayedRefunds(this.model, this.tenants, this.first.tenant);
  }

  private get first(): LedgerClient {
    return this.clients[0] as LedgerClient;
  }

  /** @throws Error after the first step at which script and model differ or an invariant is broken */
  async run(): Promise<void> {
    await this.prepare();
    for (const operation of this.world.operations) {
      this.step += 1;
      const calls =
        operation.kind === 'group'
          ? operation.operations.map((member) => this.groupableCallOf(member))
          : [await this.callOf(operation)].filter((call) => call !== undefined);
      if (calls.length > 0) {
        await this.compare(operation, calls);
      }
    }
  }

  /** Deletes the world's keys, and only these. */
  async clear(): Promise<void> {
    const keys = await this.first.redis.keys(`${this.first.tag}*`);
    await Promise.all(keys.map((key) => this.first.redis.unlink(key)));
  }

  private async prepare(): Promise<void> {
    for (const [index, plan] of this.world.tenants.entries()) {
      if (plan !== undefined) {
        const name = this.tenants[index] as string;
        this.model.tenants.set(name, { status: 'ACTIVE', ...plan });
        await this.first.makeTenant(
          {
            reservation_expiry_policy: plan.expiryPolicy,
            default_reservation_ttl_ms: String(plan.defaultTtlMs),
            max_reservation_ttl_ms: String(plan.maxTtlMs),
            max_reservation_extensions: String(plan.maxExtensions),
            ...(plan.policy === undefined ? {} : { default_commit_overage_policy: plan.policy }),
            ...(plan.chargePercent === undefined
              ? {}
              : { charge_on_expiry_percent: String(plan.chargePercent) }),
          },
          name,
        );
      }
    }
    const now = await this.first.serverTime();
    this.began = now;
    for (const { tenant, subject, unit, allocated, overdraftLimit, policy, period, windows } of this.world
      .budgets) {
      const scope = this.first.scope(subject, this.tenants[tenant]);
      const rule = policy === undefined ? {} : { policy };
      const budget: ModelBudget = {
        scope,
        unit,
        allocated,
        spent: 0n,
        debt: 0n,
        overdraftLimit,
        marked: false,
        status: 'ACTIVE',
        ...rule,
        ...(period && { period: firstPeriod(period, allocated, now), isIndexed: true }),
        windows: firstWindows(windows, now),
      };
      this.model.budgets.push(budget);
      await this.first.makeBudget({ scope, unit, allocated, overdraftLimit, ...rule });
      const owner = this.tenants[tenant] as string;
      await this.first.redis.hset(this.first.budgetKeyOf(scope, unit), {
        tenant_id: owner,
        ledger_id: 'ldg_1',
      });
      await storePeriod(this.first, budget);
      await storeWindows(this.first, budget);
    }
  }

  /** Sends the calls concurrently. Groupable ones share a run. */
  private async compare(operation: Operation, calls: readonly Call[]): Promise<void> {
    const client = this.clients['client' in operation ? operation.client : 0] as LedgerClient;
    const [bytes, toldBefore] = [await snapshot(client), (await readLedger(client)).events.length];
    const before = await client.serverTime();
    const replies = await Promise.all(calls.map((call) => call.send(client)));
    const after = await client.serverTime();
    this.model.begin();
    const faults: string[] = [];
    const crossings: string[] = [];
    for (const [index, call] of calls.entries()) {
      const reply = withoutAdvice(replies[index] as string[]);
      const now = instantOf(reply) ?? before;
      const expected = call.judge(this.model, now);
      crossings.push(...this.model.crossings());
      this.tally(
        reply[0] === 'BUDGET_EXCEEDED' && reply.length === 4 ? 'short window' : (reply[0] as string),
      );
      if (now < before || now > after) {
        faults.push(`decided at ${now}, which is not within ${before} to ${after}`);
      }
      faults.push(...differences('reply', reply, expected));
    }
    if (this.model.events.some(isRollover)) {
      this.tally(`rollover in ${operation.kind}`);
    }
    if (this.model.events.some((event) => event.startsWith('budget.created '))) {
      this.tally(`birth in ${operation.kind}`);
    }
    if (this.model.hasTurned) {
      this.tally(`turn in ${operation.kind}`);
    }
    const state = await readLedger(client);
    faults.push(
      ...differences(
        'events',
        state.events
          .slice(toldBefore)
          .filter((event) => !isCrossing(event))
          .map(told),
        this.model.events,
      ),
      ...differences(
        'crossings',
        state.events.slice(toldBefore).filter(isCrossing).map(told).sort(),
        crossings.sort(),
      ),
      ...faultsOf(state),
      ...this.stateFaults(state),
      ...differences(
        'charges in the journal',
        chargedBy(state),
        linesOf(
          new Map(
            this.model.budgets.map(({ unit, scope, charged = 0n }) => [`${unit}:${scope}`, charged] as const),
          ),
        ),
      ),
      ...(await comparedReads(client, this.model, this.tenants)).flatMap((pair) => differences(...pair)),
    );
    if (!this.model.touched) {
      const changed = changedKeys(bytes, await snapshot(client)).filter(
        (key) => this.model.events.length === 0 || !/\}(events$|ev:)/.test(key),
      );
      faults.push(...changed.map((key) => `a refused operation or a replay changed ${key}`));
    }
    if (faults.length > 0) {
      const what = JSON.stringify(operation, (_, value: unknown) =>
        typeof value === 'bigint' ? String(value) : value,
      );
      throw new Error(`step ${this.step}, ${what}:\n${faults.join('\n')}`);
    }
  }

  private tally(word: string): void {
    this.replies.set(word, (this.replies.get(word) ?? 0) + 1);
  }

  private stateFaults(state: LedgerState): string[] {
    const periods = [...comparedPeriods(this.model, state), ...comparedWindows(this.model, state)];
    return [...stateDifferences(this.model, state), ...periods.flatMap((pair) => differences(...pair))];
  }

  private groupableCallOf(operation: GroupableOperation): Call {
    return this.remember(
      operation.kind === 'reserve' ? this.reserveRequest(operation) : this.settleRequest(operation),
    );
  }

  private async callOf(operation: Exclude<Operation, { kind: 'group' }>): Promise<Call | undefined> {
    switch (operation.kind) {
      case 'reserve':
      case 'commit':
        return this.groupableCallOf(operation);
      case 'debit':
        return this.remember(this.debitRequest(operation));
      case 'refund':
        return this.remember(this.refunds.request(operation, this.nextKey()));
      case 'set':
        return this.remember(this.setRequest(operation));
      case 'decide':
        return this.remember(this.decideRequest(operation));
      case 'release':
      case 'extend':
        return this.remember(this.settleRequest(operation));
      case 'repeat':
        return this.requests.length === 0
          ? undefined
          : (this.requests[operation.request % this.requests.length] as Request)(operation.altered);
      case 'expire': {
        const id = this.overdueAt(operation.hold) ?? this.holdAt(operation.hold);
        return { send: (client) => client.expire(id), judge: (model, now) => model.expire(id, now) };
      }
      case 'sweep': {
        const ids = operation.holds.map((hold) => this.holdAt(hold));
        return {
          send: (client) => client.expirePage(ids),
          judge: (model, now) => model.expirePage(ids, now),
        };
      }
      case 'cleanup': {
        const tenant = operation.tenant === 'all' ? '' : (this.tenants[operation.tenant] as string);
        const { limit, dryRun } = operation;
        return {
          // Where the walk continues depends on other tenants' entries, which the reply does not name.
          send: async (client) => (await client.cleanup({ tenant, limit, dryRun })).toSpliced(2, 3),
          judge: (model, now) => model.cleanup({ tenant, limit, dryRun }, now),
        };
      }
      case 'get': {
        const { id, tenant } = this.target(operation);
        return {
          send: async (client) => this.shortened(await client.get(id, tenant)),
          judge: (model, now) => model.get(id, tenant, now),
        };
      }
      case 'idle':
      case 'plan':
      case 'fund':
        return periodCall(operation, this.model.budgets);
      case 'update':
      case 'recurrence':
      case 'windows':
      case 'planWindow':
        return operatorCall(operation, this.model.budgets, this.began);
      default:
        await this.meddle(operation);
        return undefined;
    }
  }

  /** Only the state of a record that was found. The rest is compared with the stored record anyway. */
  private shortened(reply: string[]): string[] {
    return reply[0] === 'FOUND' ? ['FOUND', reply[reply.indexOf('st') + 1] as string] : reply;
  }

  private remember(request: Request): Call {
    this.requests.push(request);
    return request(false);
  }

  private nextKey(): string {
    this.count += 1;
    return `key-${this.count}`;
  }

  private holdAt(index: number): string {
    const ids = [...this.model.holds.keys()];
    return ids[index % (ids.length + 1)] ?? UNKNOWN_HOLD;
  }

  private activeAt(index: number): string {
    const active = [...this.model.holds.values()].filter(({ state }) => state === 'ACTIVE');
    return active[index % active.length]?.id ?? UNKNOWN_HOLD;
  }

  /** For every second index, a hold that is due, if there is one: few are, and most plays would expire none otherwise. */
  private overdueAt(index: number): string | undefined {
    const now = Date.now();
    const due = [...this.model.holds.values()].filter(
      ({ state, expiresAt, graceMs }) => state === 'ACTIVE' && expiresAt + graceMs < now,
    );
    return index % 2 === 0 ? due[(index / 2) % due.length]?.id : undefined;
  }

  private target({ hold, foreign }: { hold: number; foreign: boolean }): { id: string; tenant: string } {
    const id = this.holdAt(hold);
    const owner = this.model.holds.get(id)?.tenant ?? this.first.tenant;
    return { id, tenant: foreign ? (this.tenants.find((name) => name !== owner) as string) : owner };
  }

  private reserveRequest({
    client: _,
    kind: __,
    tenant,
    share,
    ...rest
  }: Operation & { kind: 'reserve' }): Request {
    const key = this.nextKey();
    return (altered) => {
      const amount = altered ? rest.amount / 2n + 1n : rest.amount;
      const request: ReserveRequest = {
        ...rest,
        amount,
        charge: share === undefined ? undefined : (amount * share) / 100n,
        tenant: this.tenants[tenant] as string,
        key,
        id: this.first.newId(),
      };
      return {
        send: (client) => client.reserve({ ...request, ...chargeField(request), by: client.tenant }),
        judge: (model, now) => model.reserve(request, now),
      };
    };
  }

  private setRequest({ tenant, members }: Operation & { kind: 'set' }): Request {
    const keys = members.map(() => this.nextKey());
    const name = this.tenants[tenant] as string;
    return (altered) => {
      const requests = members.map((member, place): ReserveRequest => ({
        ...member,
        amount: altered && place === 0 ? member.amount / 2n + 1n : member.amount,
        dryRun: false,
        tenant: name,
        key: keys[place] as string,
        id: this.first.newId(),
      }));
      return {
        send: async (client) => {
          const by = requests.map((request) => ({ ...request, by: client.tenant }));
          const fingerprint = [keys[0], requests[0]?.amount].join();
          const { refused, replies } = await reserveSet(client, by, { fingerprint });
          return refused === undefined ? replies.flat() : [...(replies[0] as string[]), String(refused)];
        },
        judge: (model, now) => model.reserveSet(requests, now),
      };
    };
  }

  private debitRequest({ client: _, kind: __, tenant, ...rest }: Operation & { kind: 'debit' }): Request {
    const key = this.nextKey();
    return (altered) => {
      const actual = altered ? rest.actual / 2n + 1n : rest.actual;
      const request: DebitRequest = {
        ...rest,
        actual,
        tenant: this.tenants[tenant] as string,
        key,
        id: `evn_${randomText(18)}`,
      };
      return {
        send: async (client) => this.refunds.withGivenId(await debit(client, { ...request, amount: actual })),
        judge: (model, now) => model.debit(request, now),
      };
    };
  }

  private decideRequest({ client: _, kind: __, tenant, ...rest }: Operation & { kind: 'decide' }): Request {
    const key = this.nextKey();
    return (altered) => {
      const amount = altered ? rest.amount / 2n + 1n : rest.amount;
      const request: DecideRequest = { ...rest, amount, tenant: this.tenants[tenant] as string, key };
      return {
        send: (client) => decide(client, request),
        judge: (model, now) => model.decide(request, now),
      };
    };
  }

  private settleRequest(operation: Operation & { kind: 'commit' | 'release' | 'extend' }): Request {
    const target: SettleRequest = { ...this.target(operation), key: this.nextKey() };
    const { id, tenant, key } = target;
    if (operation.kind === 'extend') {
      return (altered) => {
        const request: ExtendRequest = { ...target, byMs: operation.byMs + (altered ? 1 : 0) };
        return {
          send: (client) => client.extend(id, request.byMs, { tenant, key }),
          judge: (model, now) => model.extend(request, now),
        };
      };
    }
    if (operation.kind === 'release') {
      return () => ({
        send: (client) => client.release(id, { tenant, key }),
        judge: (model, now) => model.release(target, now),
      });
    }
    const hold = this.model.holds.get(id);
    const base =
      { zero: 0n, estimate: hold?.amount ?? 10n, largest: INT64_MAX }[operation.base] + operation.offset;
    const actual = base < 0n ? 0n : base > INT64_MAX ? INT64_MAX : base;
    const unit = operation.wrongUnit ? 'CREDITS' : (hold?.unit ?? 'TOKENS');
    return (altered) => {
      const request: CommitRequest = { ...target, unit, actual: altered ? actual / 2n + 1n : actual };
      return {
        send: (client) => client.commit(id, request.actual, { tenant, key, unit }),
        judge: (model, now) => model.commit(request, now),
      };
    };
  }

  /** Time and operators: changes the stored data directly and the model in the same way. */
  private async meddle(operation: Operation): Promise<void> {
    if (operation.kind === 'backdate') {
      await this.backdate(this.activeAt(operation.hold), operation.overdue);
    } else if (operation.kind === 'tenant') {
      const name = this.tenants[operation.tenant] as string;
      const tenant = this.model.tenants.get(name);
      if (tenant !== undefined) {
        tenant.status = operation.status;
        await this.first.makeTenant({ status: operation.status }, name);
      }
    } else if (operation.kind === 'expiryPolicy') {
      const name = this.tenants[operation.tenant] as string;
      const tenant = this.model.tenants.get(name);
      if (tenant !== undefined) {
        tenant.expiryPolicy = operation.policy;
        await this.first.makeTenant(
          { status: tenant.status, reservation_expiry_policy: operation.policy },
          name,
        );
      }
    } else if (operation.kind === 'template') {
      await this.changeTemplate(operation);
    } else if (operation.kind === 'pass') {
      await this.pass(operation);
    } else if (operation.kind === 'budget' && this.model.budgets.length > 0) {
      await this.operate(
        this.model.budgets[operation.budget % this.model.budgets.length] as ModelBudget,
        operation,
      );
    }
  }

  private async changeTemplate(change: TemplateChange): Promise<void> {
    const tenant = this.tenants[change.tenant] as string;
    const { id, ends, pattern, unit, allocated, overdraftLimit, policy } = change;
    const others = this.model.templates.filter((one) => one.id !== id || one.tenant !== tenant);
    if (ends) {
      await deleteTemplate(this.first, id, tenant);
      this.model.templates = others;
      return;
    }
    const fields = {
      overdraft_limit: String(overdraftLimit),
      ...(policy !== undefined && { commit_overage_policy: policy }),
    };
    const [word] = await setTemplate(this.first, { tenant, id, pattern, unit, allocated, fields });
    const template = {
      tenant,
      id,
      pattern: `tenant:${tenant}${pattern}`,
      unit,
      allocated,
      overdraftLimit,
      policy,
    };
    if (word === 'CREATED') {
      this.model.templates.push(template);
    } else if (word === 'UPDATED') {
      this.model.templates = this.model.templates.map((one) => (others.includes(one) ? one : template));
    }
  }

  private async backdate(id: string, overdue: boolean): Promise<void> {
    const hold = this.model.holds.get(id);
    if (hold?.state !== 'ACTIVE' || hold.isQuarantined === true) {
      return;
    }
    const ended = (await this.first.serverTime()) - 60_000;
    hold.expiresAt = overdue || hold.graceMs < 600_000 ? ended - hold.graceMs : ended;
    await this.first.setExpiry(id, hold.expiresAt);
  }

  private async pass({ budget: index, boundaries }: Operation & { kind: 'pass' }): Promise<void> {
    const { budgets } = this.model;
    const now = await this.first.serverTime();
    for (const budget of index === 'all'
      ? budgets
      : budgets.slice(index % (budgets.length + 1)).slice(0, 1)) {
      if (budget.period !== undefined) {
        budget.period = passed(budget.period, boundaries, now);
        await storePeriod(this.first, budget);
      }
      budget.windows = budget.windows?.map((window) => passedWindow(window, boundaries, now)) ?? [];
      await storeWindows(this.first, budget);
    }
  }

  private async operate(
    budget: ModelBudget,
    { change, amount }: Operation & { kind: 'budget' },
  ): Promise<void> {
    if (change === 'credit') {
      budget.allocated = budget.allocated + amount > INT64_MAX ? budget.allocated : budget.allocated + amount;
      budget.marked = false;
    } else if (change === 'limit') {
      budget.overdraftLimit = amount;
    } else {
      budget.status = { freeze: 'FROZEN', close: 'CLOSED', reopen: 'ACTIVE' }[change];
      // No operation reopens a closed budget, which may have left the index.
      budget.isIndexed = change === 'reopen' ? budget.period !== undefined : (budget.isIndexed ?? false);
      await storePeriod(this.first, budget);
    }
    const { redis } = this.first;
    await redis.hset(this.first.budgetKeyOf(budget.scope, budget.unit), {
      allocated: String(budget.allocated),
      remaining: String(this.model.remainingOf(budget)),
      overdraft_limit: String(budget.overdraftLimit),
      is_over_limit: budget.marked ? '1' : '0',
      status: budget.status,
    });
  }
}
