import { describe, expect, test } from '@jest/globals';
import { seedFrom } from '../../scripts/seed.mjs';
import { debit } from '../support/admission-client.js';
import { creditsOf, grant, newCreditId, updateCredit, voidCredit } from '../support/credit-client.js';
import { clockAt } from '../support/fixed-clock.js';
import { fund } from '../support/governance-client.js';
import type { LedgerClient } from '../support/ledger-client.js';
import { assertInvariants } from '../support/ledger-state.js';
import { useLedger } from '../support/use-ledger.js';
import { CreditModel, type ModelCredit } from './model-credits.js';
import { Random } from './random.js';

/* Random lives of one budget with credits against the plain model, compared after each step. */

const SEED = seedFrom('CREDITS_SEED', 'property test of credits');
const WORLDS = 25;
const STEPS = 400;
const T0 = Date.UTC(2100, 0, 1);

const newLedger = useLedger();

class Play {
  private now = T0;
  private count = 0;

  constructor(
    private readonly ledger: LedgerClient,
    private readonly model: CreditModel,
    private readonly random: Random,
  ) {}

  private get at(): LedgerClient {
    return clockAt(this.ledger, this.now);
  }

  async step(): Promise<string> {
    this.now += this.random.pick([0, 1, 1, 2, 5]);
    this.model.pass(this.now);
    const kind = this.random.pick([
      ...['grant', 'grant', 'reserve', 'reserve', 'reserve', 'reserve', 'commit', 'commit', 'commit'],
      ...['release', 'expire', 'debit', 'credit', 'take', 'void', 'move', 'look'],
    ]);
    const told = await this.play(kind);
    try {
      await this.compare();
    } catch (error) {
      throw new Error(told, { cause: error });
    }
    return told;
  }

  private play(kind: string): Promise<string> {
    const { random } = this;
    switch (kind) {
      case 'grant':
        return this.grant();
      case 'reserve':
        return this.reserve(BigInt(random.int(1, 60)));
      case 'commit':
      case 'release':
      case 'expire':
        return this.end(kind);
      case 'debit':
        return this.debit(BigInt(random.int(1, 40)));
      case 'credit':
        return this.fund('CREDIT', BigInt(random.int(1, 40)));
      case 'take':
        return this.fund('DEBIT', BigInt(random.int(1, 60)));
      case 'void':
      case 'move':
        return this.change(kind);
      default:
        // A script that changes nothing lets what is due happen.
        return this.fund('CREDIT', 0n);
    }
  }

  private async grant(): Promise<string> {
    const { model, random, now } = this;
    const id = `${newCreditId(this.ledger).slice(0, 6)}${String((this.count += 1)).padStart(16, '0')}`;
    const [amount, starts] = [BigInt(random.int(1, 80)), now + random.pick([0, 0, 0, 3, 8])];
    const ends = random.pick([Infinity, starts + random.int(1, 15), starts + random.int(1, 15)]);
    const priority = random.pick([0, 50, 50, 90]);
    const live = model.credits.filter(({ isOver }) => !isOver).length + model.pins.length;
    const reply = await grant(this.at, amount, {
      ...{ id, priority, starts: starts === now && random.pick([true, false]) ? '' : starts },
      ends: ends === Infinity ? '' : ends,
    });
    expect(reply[0]).toBe(live < 64 ? 'GRANTED' : 'TOO_MANY_CREDITS');
    if (live < 64) {
      model.credits.push({
        ...{ id, amount, priority, starts, ends, left: amount, isActive: false, isOver: false },
        ...{ consumed: 0n, lapsed: 0n, voided: 0n },
      });
      model.pass(now);
    }
    return `grant ${amount} from ${starts - T0} to ${ends - T0}, priority ${priority}`;
  }

  private async reserve(amount: bigint): Promise<string> {
    const { model } = this;
    const isGranted = model.remaining >= amount;
    const charge = this.random.pick([undefined, '0', String(this.random.int(0, Number(amount)))]);
    const reply = await this.at.reserve({
      amount,
      ttlMs: 1e9,
      graceMs: 0,
      ...(charge !== undefined && { fields: { ce: charge } }),
    });
    expect(reply[0]).toBe(isGranted ? 'ALLOW' : 'BUDGET_EXCEEDED');
    if (isGranted) {
      model.reserve(reply[2] as string, amount, this.now);
    }
    return `reserve ${amount}: ${reply[0]}`;
  }

  private async end(kind: 'commit' | 'release' | 'expire'): Promise<string> {
    const { model, random } = this;
    const hold = model.holds[random.int(0, Math.max(0, model.holds.length - 1))];
    if (hold === undefined) {
      return this.fund('CREDIT', 0n);
    }
    if (kind === 'release') {
      expect((await this.at.release(hold.id))[0]).toBe('RELEASED');
      model.charge(hold, 0n);
      return `release ${hold.amount}`;
    }
    if (kind === 'expire') {
      // Its own deadline has passed; nothing else has ended by then.
      await this.ledger.redis.hset(this.ledger.reservationKeyOf(hold.id), 'ex', this.now - 1);
      await this.ledger.redis.zadd(`${this.ledger.tag}ttl`, this.now - 1, hold.id);
      const charge = BigInt((await this.ledger.redis.hget(this.ledger.reservationKeyOf(hold.id), 'ce')) ?? 0);
      expect((await this.at.expire(hold.id))[0]).toBe(charge > 0n ? 'CHARGED' : 'EXPIRED');
      model.charge(hold, charge);
      return `expire ${hold.amount} for ${charge}`;
    }
    const actual = BigInt(random.int(0, Number(hold.amount) + random.pick([0, 0, 30])));
    const over = actual - hold.amount;
    const unfunded = over > 0n ? positive(over - positive(model.remaining)) : 0n;
    const reply = await this.at.commit(hold.id, String(actual));
    const isRefused = over > 0n && model.debt + unfunded > model.overdraftLimit;
    const refusal = model.overdraftLimit > 0n ? 'OVERDRAFT_LIMIT_EXCEEDED' : 'BUDGET_EXCEEDED';
    expect(reply[0]).toBe(isRefused || (over > 0n && model.overdraftLimit === 0n) ? refusal : 'COMMITTED');
    if (reply[0] === 'COMMITTED') {
      model.charge(hold, actual - unfunded, unfunded);
    }
    return `commit ${actual} of ${hold.amount}: ${reply[0]}`;
  }

  private async debit(amount: bigint): Promise<string> {
    const { model } = this;
    const reply = await debit(this.at, { amount, policy: 'REJECT' });
    const isPaid = model.remaining >= amount;
    expect(reply[0]).toBe(isPaid ? 'APPLIED' : 'BUDGET_EXCEEDED');
    if (isPaid) {
      model.charge(undefined, amount);
    }
    return `debit ${amount}: ${reply[0]}`;
  }

  private async fund(operation: 'CREDIT' | 'DEBIT', amount: bigint): Promise<string> {
    const { model } = this;
    const reply = await fund(this.at, amount, { operation });
    const isDone = operation === 'CREDIT' || (model.remaining >= amount && model.base >= amount);
    expect(reply[0]).toBe(isDone ? 'FUNDED' : 'BUDGET_EXCEEDED');
    if (isDone && operation === 'CREDIT') {
      model.fund(amount);
    } else if (isDone) {
      model.allocated -= amount;
    }
    return `${operation} ${amount}: ${reply[0]}`;
  }

  private async change(kind: 'void' | 'move'): Promise<string> {
    const { model, random, now } = this;
    const credit = model.credits[random.int(0, Math.max(0, model.credits.length - 1))];
    if (credit === undefined) {
      return this.fund('CREDIT', 0n);
    }
    const { isOver, left } = credit;
    if (kind === 'move') {
      const ends = random.pick([Infinity, now + random.int(-2, 12)]);
      const reply = await updateCredit(this.at, credit.id, { ends: ends === Infinity ? 'none' : ends });
      const isEnded = ends <= now || ends <= credit.starts;
      expect(reply[0]).toBe(isOver ? 'CREDIT_FINALIZED' : isEnded ? 'CREDIT_ENDED' : 'CHANGED');
      credit.ends = reply[0] === 'CHANGED' ? ends : credit.ends;
      return `move ${credit.id} to ${ends - T0}: ${reply[0]}`;
    }
    const reply = await voidCredit(this.at, credit.id);
    expect(reply[0]).toBe(
      isOver && credit.voided === 0n && !this.voided.has(credit) ? 'CREDIT_FINALIZED' : 'CHANGED',
    );
    if (!isOver) {
      this.voided.add(credit);
      credit.voided = credit.isActive ? model.end(credit, now + 1) : left;
      credit.isOver = true;
      credit.left = 0n;
    }
    return `void ${credit.id}: ${reply[0]}`;
  }

  private readonly voided = new Set<ModelCredit>();

  private async compare(): Promise<void> {
    const { model, ledger } = this;
    expect(model.faults()).toEqual([]);
    const figures = (await ledger.figures()).split(',').slice(0, 5).join();
    expect(figures).toBe([model.remaining, model.reserved, model.spent, model.allocated, model.debt].join());
    const paid = await ledger.redis.hget(ledger.budgetKeyOf(), 'paid_by_credits');
    expect(BigInt(paid ?? 0)).toBe(model.paidByCredits);
    const shown = await creditsOf(this.at);
    for (const credit of model.credits) {
      const found = shown.find(({ id }) => id === credit.id);
      expect(found).toMatchObject({
        ...{ left: credit.left, pinned: model.pinnedOf(credit), lapsed: credit.lapsed },
        ...{ voided: credit.voided, consumed: credit.consumed },
      });
    }
  }
}

const positive = (amount: bigint): bigint => (amount > 0n ? amount : 0n);

describe('ten thousand random operations on budgets with credits', () => {
  test.each(Array.from({ length: WORLDS }, (_, world) => SEED + world))('CREDITS_SEED=%d', async (seed) => {
    const random = new Random(seed);
    const ledger = await newLedger();
    await ledger.makeTenant();
    const [allocated, limit] = [BigInt(random.int(0, 150)), BigInt(random.pick([0, 40]))];
    await ledger.makeBudget({
      ...{ allocated, overdraftLimit: limit, policy: limit > 0n ? 'ALLOW_WITH_OVERDRAFT' : 'REJECT' },
    });
    await ledger.redis.hset(ledger.budgetKeyOf(), { tenant_id: ledger.tenant, ledger_id: 'ldg_1' });
    const play = new Play(ledger, new CreditModel(allocated, limit), random);
    const told: string[] = [];
    try {
      for (let step = 0; step < STEPS; step += 1) {
        told.push(await play.step());
      }
    } catch (error) {
      throw new Error(`after ${told.slice(-12).join('\n')}`, { cause: error });
    }
    await assertInvariants(ledger);
  });
});
