import { INT64_MAX } from '../../src/ledger/amount.js';
import { fundBudget, type FundRequest } from './model-funding.js';
import { rolloverEvents, rolloversUntil } from './model-periods.js';
import {
  budgetsAt,
  deadlineOf,
  dueOf,
  type ModelBudget,
  type ModelHold,
  type ModelTenant,
} from './model-records.js';
import { type ModelTemplate, unbornAt } from './model-templates.js';
import { chargedWindows, type ModelWindow, planAtOf, windowAt } from './model-windows.js';
import { crossingsBetween } from './readings.js';

/** The budgets of the model: their figures, and how time and operators change them. */
export class BudgetModel {
  readonly tenants = new Map<string, ModelTenant>();
  readonly budgets: ModelBudget[] = [];
  readonly holds = new Map<string, ModelHold>();
  /** Oldest first. */
  templates: ModelTemplate[] = [];
  events: string[] = [];
  touched = false;
  /** Whether windows have turned over in the last call. */
  hasTurned = false;
  /** Rollovers since the job last reported them. */
  private rolled = 0;
  /** Windows that have turned over since then. */
  private turned = 0;
  /** Budgets that templates have made since then. */
  private born = 0;
  /** The use of each budget when its crossings were last noted. */
  private usedBefore = new Map<string, number>();
  private crossed: string[] = [];

  /** Forgets what earlier calls have reported. */
  begin(): void {
    this.events = [];
    this.touched = false;
    this.hasTurned = false;
    this.crossed = [];
    this.usedBefore = new Map();
    this.noteCrossings();
  }

  /** The crossings that the last call must report. */
  crossings(): string[] {
    this.noteCrossings();
    return this.crossed.splice(0);
  }

  /** Notes what these budgets have crossed since the last time. */
  private noteCrossings(budgets: readonly ModelBudget[] = this.budgets): void {
    for (const budget of budgets) {
      const name = `${budget.scope} ${budget.unit}`;
      const used = this.useOf(budget);
      this.crossed.push(...crossingsBetween(name, this.usedBefore.get(name) ?? used, used));
      this.usedBefore.set(name, used);
    }
  }

  reservedOf(budget: ModelBudget): bigint {
    const live = [...this.holds.values()].filter(
      (hold) => hold.state === 'ACTIVE' && hold.budgets.includes(budget),
    );
    return live.reduce((sum, hold) => sum + hold.amount, 0n);
  }

  remainingOf(budget: ModelBudget): bigint {
    return budget.allocated - budget.spent - this.reservedOf(budget) - budget.debt;
  }

  figures(budget: ModelBudget, reserved = this.reservedOf(budget)): string {
    const over = budget.marked ? '1' : '0';
    const { spent, allocated, debt, overdraftLimit } = budget;
    const remaining = allocated - spent - reserved - debt;
    return [remaining, reserved, spent, allocated, debt, overdraftLimit, over].join();
  }

  /** The figures that a read shows. It changes nothing. */
  shown(budget: ModelBudget, now: number): string {
    const reserved = this.reservedOf(budget);
    return this.figures(rolloversUntil(budget, reserved, now).at(-1)?.budget ?? budget, reserved);
  }

  /** The members of the index of periods, each with its score. */
  indexed(): [member: string, ends: number][] {
    return this.budgets.flatMap(({ scope, unit, period, isIndexed }): [string, number][] =>
      period !== undefined && isIndexed === true ? [[`${scope} ${unit}`, period.ends]] : [],
    );
  }

  fund(budget: ModelBudget, request: FundRequest, now: number): string[] {
    const owner = budget.scope.split('/')[0]?.slice('tenant:'.length) as string;
    if (this.tenants.get(owner)?.status === 'CLOSED') {
      return ['TENANT_CLOSED'];
    }
    if (budget.status === 'CLOSED') {
      return ['BUDGET_CLOSED'];
    }
    this.rollOver(budget, now);
    if (budget.status !== 'ACTIVE') {
      return ['BUDGET_FROZEN'];
    }
    // What is due may have decided only if the operation is refused, or leaves nothing.
    const reserved = this.reservedOf(budget);
    const { reply, events } = fundBudget({ ...budget }, request, reserved);
    const hasFunds = reply[0] === 'FUNDED' && BigInt(reply[5] as string) > 0n;
    const reclaimed = reserved === 0n || hasFunds ? undefined : this.reclaimed(now);
    if (reclaimed !== undefined) {
      return reclaimed;
    }
    fundBudget(budget, request, reserved);
    this.events.push(...events);
    this.touched ||= events.length > 0;
    return reply;
  }

  /** The job for idle budgets: rolls over the first ones whose period has ended and that are in the index. */
  rollOverIdle(limit: number, now: number): string[] {
    const order = ([a, one]: [string, number], [b, other]: [string, number]): number =>
      one - other || (a < b ? -1 : 1);
    const due = this.indexed()
      .filter(([, ends]) => ends <= now)
      .sort(order)
      .slice(0, limit);
    for (const [member] of due) {
      const budget = this.budgets.find(({ scope, unit }) => `${scope} ${unit}` === member) as ModelBudget;
      if (!this.rollOver(budget, now)) {
        budget.isIndexed = false;
      }
    }
    const next = this.indexed().sort(order)[0]?.[1] ?? '';
    const more = due.length === limit ? '1' : '0';
    const unplanned = this.unplanned()
      .filter(([, planAt]) => planAt <= now)
      .sort(([a, one], [b, other]) => order([a, one], [b, other]))
      .slice(0, limit)
      .flatMap(([member, , read]) => [...`${member} `.split(' ').slice(0, 3), ...read(now)]);
    this.touched ||= due.length > 0 || this.rolled > 0 || this.turned > 0 || this.born > 0;
    const counts = [this.rolled, this.turned, this.born].map(String);
    const noCredits = ['0', ''];
    const reply = ['ROLLED', String(now), ...counts, ...noCredits, String(next), more, '0', ...unplanned];
    [this.rolled, this.turned, this.born] = [0, 0, 0];
    return reply;
  }

  /**
   * What needs new boundaries: its name, the time from which it needs them, and its rule and end as they are
   * when the job gets to it.
   */
  private unplanned(): [string, number, (now: number) => string[]][] {
    return this.budgets.flatMap((budget): [string, number, (now: number) => string[]][] => {
      const { scope, unit, period, windows = [] } = budget;
      const own = period?.planAt;
      return [
        ...(own === undefined
          ? []
          : [
              [`${scope} ${unit}`, own, () => ['a rule', String(period?.ends)]] as [
                string,
                number,
                () => string[],
              ],
            ]),
        ...windows.flatMap(({ name, planAt }): [string, number, (now: number) => string[]][] =>
          planAt === undefined
            ? []
            : [
                [
                  `${scope} ${unit} ${name}`,
                  planAt,
                  (now) => {
                    this.turn(budget, now);
                    const { ends } = budget.windows?.find((one) => one.name === name) as ModelWindow;
                    return [`rule of ${name}`, String(ends)];
                  },
                ],
              ],
        ),
      ];
    });
  }

  /** The boundaries that the service computes by the budget's rule, or by an earlier rule. */
  plan(budget: ModelBudget, instants: readonly number[], isOld: boolean): string[] {
    const { period, status } = budget;
    if (period?.plan !== undefined && status !== 'CLOSED' && isOld) {
      return ['SKIP'];
    }
    const following = instants.filter((instant) => instant > (period?.ends ?? Infinity));
    if (period?.plan === undefined || status === 'CLOSED' || following.length === 0) {
      this.touched ||= period?.planAt !== undefined;
      budget.period &&= { ...budget.period, planAt: undefined };
      return ['SKIP'];
    }
    budget.period = { ...period, plan: following, planAt: planAtOf(following) };
    budget.isIndexed = true;
    this.touched = true;
    return ['PLANNED'];
  }

  /**
   * The budgets in the state that a script needs for a decision: rolled over if their period has ended, and
   * with their current windows.
   */
  protected current<Budgets extends readonly ModelBudget[]>(budgets: Budgets, now: number): Budgets {
    this.begun(budgets, now);
    budgets.forEach((budget) => this.turn(budget, now));
    return budgets;
  }

  /** The budgets that a request finds at its scopes: those that there are, and those that templates would make. */
  protected found(owner: string, scopes: readonly string[], unit: string, now: number): ModelBudget[] {
    const templates = this.tenants.has(owner) ? this.templates.filter(({ tenant }) => tenant === owner) : [];
    const budgets = scopes.flatMap((scope) => {
      const [budget = unbornAt(templates, scope, unit)] = budgetsAt(this.budgets, [scope], unit);
      return budget ?? [];
    });
    this.noteCrossings(budgets.filter((budget) => !this.budgets.includes(budget)));
    return this.current(budgets, now);
  }

  /** Makes those of the budgets that are not there yet. */
  protected bear(owner: string, budgets: readonly ModelBudget[]): void {
    for (const budget of budgets.filter((one) => !this.budgets.includes(one))) {
      this.budgets.push(budget);
      this.events.push(`budget.created ${owner} ${budget.scope} -`);
      this.born += 1;
    }
  }

  /** Enough for scripts that only return holds, which windows do not count. */
  protected begun(budgets: readonly ModelBudget[], now: number): void {
    budgets.forEach((budget) => this.rollOver(budget, now));
  }

  protected turn(budget: ModelBudget, now: number): void {
    const { windows = [], status } = budget;
    const current = status === 'CLOSED' ? windows : windows.map((window) => windowAt(window, now));
    const turned = current.filter((window, index) => window !== windows[index]).length;
    if (turned > 0) {
      budget.windows = current;
      this.turned += turned;
      this.hasTurned = true;
      this.touched = true;
    }
  }

  protected rollOver(budget: ModelBudget, now: number): boolean {
    const reserved = this.reservedOf(budget);
    const rollovers = rolloversUntil(budget, reserved, now);
    for (const rollover of rollovers) {
      this.events.push(...rolloverEvents(budget, rollover, reserved));
      Object.assign(budget, rollover.budget, { isIndexed: true });
      this.noteCrossings([budget]);
    }
    if (rollovers.length > 0) {
      this.touched = true;
      this.rolled += rollovers.length;
    }
    return rollovers.length > 0;
  }

  /** What a script does instead of deciding because of what is held, if anything is due. */
  protected reclaimed(now: number): string[] | undefined {
    const due = dueOf(this.holds, now);
    this.currentOf(due, now);
    const outcomes = due.flatMap((hold) => this.expireHold(hold, now).slice(0, 3));
    return outcomes.length === 0 ? undefined : ['RECLAIMED', String(now), ...outcomes];
  }

  /** A run first rolls over the budgets of all holds that it will expire, and then expires them. */
  protected currentOf(holds: readonly ModelHold[], now: number): void {
    holds.forEach((hold) => this.begun(hold.budgets, now));
  }

  /** Its charge counts in the current windows, and moves from what is reserved to what is spent. */
  protected expireHold(hold: ModelHold, now: number): string[] {
    const { id, tenant, leaf, charge } = hold;
    this.begun(hold.budgets, now);
    if (charge > 0n && !hold.budgets.every((budget) => this.canTake(budget, charge, now))) {
      const again = hold.isQuarantined === true ? ['again'] : [];
      if (again.length === 0) {
        this.events.push(`custom.reservation.quarantined ${tenant} undefined ${id}`);
        hold.isQuarantined = true;
        this.touched = true;
      }
      return ['QUARANTINED', 'INT64_OVERFLOW', tenant, ...again];
    }
    this.touched = true;
    hold.state = 'EXPIRED';
    hold.isQuarantined = false;
    [hold.charged, hold.chargedAt] = [charge, now];
    for (const budget of charge > 0n ? hold.budgets : []) {
      budget.spent += charge;
      budget.charged = (budget.charged ?? 0n) + charge;
      budget.windows &&= chargedWindows(budget.windows, charge) ?? [];
    }
    this.events.push(`reservation.expired ${tenant} ${leaf} ${id}${charge > 0n ? ` ${charge}` : ''}`);
    return [charge > 0n ? 'CHARGED' : 'EXPIRED', tenant, String(deadlineOf(hold))];
  }

  private canTake(budget: ModelBudget, charge: bigint, now: number): boolean {
    this.turn(budget, now);
    const { spent, windows } = budget;
    return (
      spent + charge <= INT64_MAX && (windows === undefined || chargedWindows(windows, charge) !== undefined)
    );
  }

  /** The protocol's utilization. What is used of nothing exceeds each mark. */
  private useOf(budget: ModelBudget): number {
    const used = Number(budget.allocated) - Number(this.remainingOf(budget)) - Number(budget.debt);
    return used === 0 ? 0 : used / Number(budget.allocated);
  }
}
