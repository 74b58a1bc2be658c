/**
 * A budget with credits, written as plainly as it can be said: the rule of lua/lib/credit_record.lua for one budget
 * without windows.
 */

export interface ModelCredit {
  readonly id: string;
  readonly amount: bigint;
  readonly priority: number;
  readonly starts: number;
  ends: number;
  left: bigint;
  isActive: boolean;
  consumed: bigint;
  lapsed: bigint;
  voided: bigint;
  isOver: boolean;
}

interface Pin {
  readonly credit: ModelCredit;
  readonly ends: number;
  left: bigint;
  live: bigint;
}

export interface ModelHold {
  readonly id: string;
  readonly amount: bigint;
  readonly madeAt: number;
}

const least = (a: bigint, b: bigint): bigint => (a < b ? a : b);
const positive = (a: bigint): bigint => (a > 0n ? a : 0n);

const inOrder = (a: ModelCredit, b: ModelCredit): number =>
  a.priority - b.priority || compare(a.ends, b.ends) || a.starts - b.starts || (a.id < b.id ? -1 : 1);

function compare(a: number, b: number): number {
  return a === b ? 0 : a < b ? -1 : 1;
}

export class CreditModel {
  readonly credits: ModelCredit[] = [];
  pins: Pin[] = [];
  holds: ModelHold[] = [];
  allocated: bigint;
  spent = 0n;
  /** What credits have paid of it. */
  paidByCredits = 0n;
  reserved = 0n;
  debt = 0n;

  constructor(
    allocated: bigint,
    readonly overdraftLimit: bigint,
  ) {
    this.allocated = allocated;
  }

  get remaining(): bigint {
    return this.allocated - this.spent - this.reserved - this.debt;
  }

  get burning(): ModelCredit[] {
    return this.credits.filter(({ isActive, isOver }) => isActive && !isOver).sort(inOrder);
  }

  get held(): bigint {
    return [...this.burning, ...this.pins].reduce((sum, { left }) => sum + left, 0n);
  }

  get base(): bigint {
    return this.allocated - this.spent - this.held;
  }

  /** What `id` still pins. */
  pinnedOf(credit: ModelCredit): bigint {
    return this.pins.filter((pin) => pin.credit === credit).reduce((sum, { left }) => sum + left, 0n);
  }

  pass(now: number): void {
    for (;;) {
      const due = this.credits
        .filter(({ isOver }) => !isOver)
        .sort(inOrder)
        .map((credit) => ({ credit, at: credit.isActive ? credit.ends : credit.starts }))
        .filter(({ at }) => at <= now)
        .sort((a, b) => a.at - b.at || Number(b.credit.isActive) - Number(a.credit.isActive));
      const [first] = due;
      if (first === undefined) {
        return;
      }
      if (first.credit.isActive) {
        first.credit.lapsed += this.end(first.credit, first.at);
      } else {
        this.start(first.credit);
      }
    }
  }

  private start(credit: ModelCredit): void {
    const repaid = least(this.debt, credit.left);
    this.allocated += credit.left;
    this.spent += repaid;
    this.paidByCredits += repaid;
    this.debt -= repaid;
    credit.left -= repaid;
    credit.consumed += repaid;
    credit.isActive = true;
    credit.isOver = credit.left === 0n;
  }

  /** Returns what the allocation loses. */
  end(credit: ModelCredit, at: number): bigint {
    const before = this.burning.slice(0, this.burning.indexOf(credit));
    const backed = [...before, ...this.pins].reduce((sum, { left }) => sum + left, 0n);
    const pinned = least(credit.left, positive(this.reserved - backed));
    const cut = credit.left - pinned;
    this.allocated -= cut;
    credit.isOver = true;
    credit.left = 0n;
    if (pinned > 0n) {
      const last = this.pins.at(-1)?.ends ?? 0;
      this.pins.push({ credit, ends: Math.max(at, last + 1), left: pinned, live: this.reserved });
    }
    this.clip();
    return cut;
  }

  private clip(): void {
    let older = 0n;
    for (const pin of this.pins) {
      pin.live = least(pin.live, this.reserved);
      const left = least(pin.left, positive(pin.live - older));
      this.allocated -= pin.left - left;
      pin.credit.lapsed += pin.left - left;
      pin.left = left;
      older += left;
    }
    this.pins = this.pins.filter(({ left }) => left > 0n);
  }

  reserve(id: string, amount: bigint, now: number): void {
    this.reserved += amount;
    this.holds.push({ id, amount, madeAt: Math.max(now, ...this.pins.map(({ ends }) => ends)) });
  }

  /** Ends a hold, or charges without one. `funded` is what does not become debt. */
  charge(hold: ModelHold | undefined, funded: bigint, unfunded = 0n): void {
    this.holds = this.holds.filter((one) => one !== hold);
    this.reserved -= hold?.amount ?? 0n;
    this.spent += funded;
    this.debt += unfunded;
    let rest = funded;
    const pay = (credit: ModelCredit, part: { left: bigint }): void => {
      const share = least(rest, part.left);
      part.left -= share;
      credit.consumed += share;
      this.paidByCredits += share;
      rest -= share;
    };
    for (const pin of this.pins) {
      if (hold !== undefined && hold.madeAt < pin.ends) {
        pin.live = positive(pin.live - hold.amount);
        pay(pin.credit, pin);
      }
    }
    for (const credit of this.burning) {
      pay(credit, credit);
      credit.isOver = credit.left === 0n;
    }
    this.clip();
  }

  fund(amount: bigint): void {
    const repaid = least(this.debt, amount);
    this.allocated += amount;
    this.spent += repaid;
    this.debt -= repaid;
  }

  /** The same budget, to try something out. */
  private copy(): CreditModel {
    const copy = new CreditModel(this.allocated, this.overdraftLimit);
    const copies = new Map(this.credits.map((credit) => [credit, { ...credit }]));
    copy.credits.push(...copies.values());
    copy.pins = this.pins.map((pin) => ({ ...pin, credit: copies.get(pin.credit) as ModelCredit }));
    copy.holds = [...this.holds];
    [copy.spent, copy.reserved, copy.debt] = [this.spent, this.reserved, this.debt];
    return copy;
  }

  /** Whether all live holds can be charged in full, in this order, each at or before the end of no further credit. */
  keepsPromises(holds: readonly ModelHold[]): boolean {
    const copy = this.copy();
    return holds.every((hold) => {
      copy.charge(hold, hold.amount);
      return copy.base >= 0n && copy.remaining >= least(this.remaining, 0n);
    });
  }

  /**
   * With a figure for each hold and pin, which the ledger does not keep: what the live holds need beside the pins, and what none of them
   * can need of the pins. The oldest pins are for the fewest holds, so the oldest holds draw on them first.
   */
  private figures(): { needed: bigint; unneeded: bigint } {
    const left = this.pins.map((pin) => pin.left);
    let needed = 0n;
    for (const hold of this.holds.toSorted((a, b) => a.madeAt - b.madeAt)) {
      let open = hold.amount;
      this.pins.forEach(({ ends }, index) => {
        const figure = hold.madeAt < ends ? least(open, left[index] as bigint) : 0n;
        left[index] = (left[index] as bigint) - figure;
        open -= figure;
      });
      needed += open;
    }
    return { needed, unneeded: left.reduce((sum, rest) => sum + rest, 0n) };
  }

  /** What breaks the promises of the rule, or nothing. */
  faults(): string[] {
    const faults: string[] = [];
    const burning = this.burning.reduce((sum, { left }) => sum + left, 0n);
    const { needed, unneeded } = this.figures();
    if (this.debt === 0n && this.remaining < 0n) {
      faults.push(`remaining is ${this.remaining}`);
    }
    if (this.base < 0n) {
      faults.push(`the base is ${this.base}`);
    }
    if (this.base + burning < needed) {
      faults.push(`what holds need beside pins, ${needed}, is covered by ${this.base + burning}`);
    }
    if (unneeded > 0n) {
      faults.push(`${unneeded} is pinned for nobody`);
    }
    if (!this.keepsPromises(this.holds) || !this.keepsPromises(this.holds.toReversed())) {
      faults.push('the live holds cannot all be charged in full');
    }
    for (const credit of this.credits) {
      const pinned = this.pinnedOf(credit);
      const sum = credit.consumed + credit.lapsed + credit.voided + credit.left + pinned;
      if (sum !== credit.amount) {
        faults.push(`${credit.id}: ${sum} of ${credit.amount} is accounted for`);
      }
    }
    return faults;
  }
}
