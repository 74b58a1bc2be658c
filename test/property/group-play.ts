import { budgetKey, idempotencyKey, ownedKey, waiterQueueKey } from '../../src/redis/keyspace.js';
import type { Runnable } from '../../src/redis/script-library.js';
import { ScriptRegistry } from '../../src/redis/scripts.js';
import { INT64_MAX } from '../../src/ledger/amount.js';
import { debit, makePolicy } from '../support/admission-client.js';
import { grant } from '../support/credit-client.js';
import { DEFAULT_UNIT, LedgerClient } from '../support/ledger-client.js';
import { type Batch, CollectedCalls, type Side } from './group-sides.js';
import type {
  CommitPlan,
  DebitPlan,
  GroupBudget,
  GroupStep,
  GroupWorld,
  ReservePlan,
} from './group-worlds.js';
import { firstPeriod, storePeriod } from './play-periods.js';
import { firstWindows, storeWindows } from './play-operators.js';
import { FIRST_INSTANT } from './world-time.js';

interface Request {
  readonly key: string;
  readonly plan: ReservePlan;
}

interface Place {
  readonly key: string;
  readonly plan: ReservePlan;
  readonly name: string;
  number: string;
  scope: string;
}

const [FAILED, SEPARATOR] = ['\u001e', '\u001f'];
const ANSWERS = new Set(['fresh', 'replay', 'observed']);

interface Asked {
  readonly tenant: string;
  readonly amount: bigint;
}

type Sends = (client: LedgerClient) => Promise<unknown>;

/** Sends the same batches to both sides of a world, and compares them after each. */
export class GroupPlay {
  private readonly client: LedgerClient;
  private readonly tenants: readonly string[];
  private readonly requests: Request[] = [];
  private readonly commits: { readonly id: string; readonly key: string; readonly actual: bigint }[] = [];
  private readonly charges: { readonly key: string; readonly plan: DebitPlan }[] = [];
  private readonly holds = new Map<string, Asked>();
  private readonly asked = new Map<string, Asked>();
  private readonly named = new Set<string>();
  private places: Place[] = [];
  private now = FIRST_INSTANT;
  private count = 0;

  constructor(
    private readonly sides: { readonly grouped: Side; readonly alone: Side },
    { redis, tag, tenant }: LedgerClient,
    private readonly world: GroupWorld,
    private readonly tally: Map<string, number>,
  ) {
    this.client = new LedgerClient(redis, tag, tenant, new ScriptRegistry(redis));
    this.tenants = world.tenants.map((_, index) => `${tenant}-${index}`);
  }

  /** @throws Error after the first batch that differs */
  async run(): Promise<void> {
    await this.pass(0);
    await this.prepare();
    for (const [index, step] of this.world.steps.entries()) {
      await this.take(step).catch((error: unknown) => {
        throw new Error(`step ${index}, ${step.kind}: ${(error as Error).message}`, { cause: error });
      });
    }
  }

  async clear(): Promise<void> {
    await Promise.all(Object.values(this.sides).map((side) => side.clear(this.client.tag)));
  }

  private async prepare(): Promise<void> {
    const { tag, redis } = this.client;
    for (const [index, { fields, limits, rules }] of this.world.tenants.entries()) {
      const name = this.tenants[index] as string;
      await this.client.makeTenant(fields, name);
      if (Object.keys(limits).length > 0) {
        await redis.hset(ownedKey(tag, name), limits);
      }
      const owner = new LedgerClient(redis, tag, name, this.client.scripts);
      if (rules !== undefined) {
        await makePolicy(owner, owner.scope(), { sets: rules });
      }
    }
    for (const budget of this.world.budgets) {
      await this.makeBudget(budget);
    }
    await this.sides.alone.copyTo(this.sides.grouped, tag);
  }

  private async makeBudget({
    tenant,
    subject,
    period,
    windows,
    credits,
    ...rest
  }: GroupBudget): Promise<void> {
    const owner = this.tenants[tenant] as string;
    const scope = this.client.scope(subject, owner);
    const { policy, ...figures } = rest;
    await this.client.makeBudget({ scope, ...figures, ...(policy === undefined ? {} : { policy }) });
    await this.client.redis.hset(this.client.budgetKeyOf(scope), { tenant_id: owner, ledger_id: 'ldg_1' });
    const { allocated, debt, overdraftLimit } = rest;
    const model = {
      ...{ scope, unit: DEFAULT_UNIT, allocated, spent: 0n, debt, overdraftLimit },
      ...{ marked: false, status: 'ACTIVE', isIndexed: true, windows: firstWindows(windows, this.now) },
      ...(period && { period: firstPeriod(period, allocated, this.now) }),
    };
    await storePeriod(this.client, model);
    await storeWindows(this.client, model);
    const client = new LedgerClient(this.client.redis, this.client.tag, owner, this.client.scripts);
    for (const { amount, priority, startsInMs, lastsMs } of credits) {
      const starts = this.now + startsInMs;
      const ends = lastsMs === undefined ? '' : starts + lastsMs;
      const key = this.nextName('credit');
      await grant(client, amount, { key, scope, priority, starts, ends, notifyBeforeMs: 2000 });
      // It lapses by the clock of the server on which it was made.
      await this.client.redis.del(idempotencyKey.credit(this.client.tag, DEFAULT_UNIT, scope, key));
    }
  }

  private async take(step: GroupStep): Promise<void> {
    switch (step.kind) {
      case 'reserve':
        return this.reserves(step.calls);
      case 'commit':
        return this.commit(step.calls);
      case 'debit':
        return this.debits(step.calls);
      case 'pass':
        return this.pass(step.ms);
      case 'overdue':
        return this.onBoth(async (client) => {
          const id = this.holdAt(step.hold);
          if ((await client.redis.hget(client.reservationKeyOf(id), 'st')) === 'ACTIVE') {
            await client.setExpiry(id, this.now - 3_600_000);
          }
        });
      default:
        return this.onBoth(async (client) => {
          const { subject, tenant } = this.world.budgets[step.budget % this.world.budgets.length] ?? {
            subject: {},
            tenant: 0,
          };
          const key = client.budgetKeyOf(client.scope(subject, this.tenants[tenant]));
          if (step.kind === 'lose') {
            await client.redis.del(key);
          } else if ((await client.redis.exists(key)) === 1) {
            await client.redis.hset(key, { status: step.status });
          }
        });
    }
  }

  private async onBoth(change: (client: LedgerClient) => Promise<void>): Promise<void> {
    for (const side of Object.values(this.sides)) {
      await change(new LedgerClient(side.redis, this.client.tag, this.client.tenant));
    }
  }

  private async pass(ms: number): Promise<void> {
    this.now += ms;
    await Promise.all(Object.values(this.sides).map((side) => side.pass(this.now)));
  }

  private nextName(what: string): string {
    this.count += 1;
    return `${what}${this.count}`;
  }

  /** For every second number a hold that no commit has named yet. */
  private holdAt(index: number): string {
    const ids = [...this.holds.keys()].filter((id) => index % 2 === 1 || !this.named.has(id));
    return (index < 980 ? ids[Math.floor(index / 2) % ids.length] : undefined) ?? 'rsv_unknown';
  }

  private async reserves(plans: readonly ReservePlan[]): Promise<void> {
    const places: (Place | undefined)[] = [];
    const sends = plans.map((plan): Sends => {
      const place = this.placeFor(plan, places);
      places.push(place);
      return this.reserve(plan, place);
    });
    const { texts } = await this.compare(sends);
    for (const [index, text] of texts.entries()) {
      const [word, number, scope = ''] = text.split(SEPARATOR);
      const asked = this.asked.get(scope);
      if (asked !== undefined) {
        this.holds.set(scope, asked);
      }
      const place = places[index];
      if (place !== undefined) {
        this.places = this.places.filter((other) => other !== place);
        if (word === 'WAITING') {
          this.places.push(Object.assign(place, { number, scope }));
        }
      }
    }
  }

  /** A place is in one request at a time. */
  private placeFor(plan: ReservePlan, taken: readonly (Place | undefined)[]): Place | undefined {
    if (plan.waits === 'new') {
      const name = `one.${this.nextName('')}.${plan.amount}`;
      return { key: this.nextName('key-'), plan, name, number: '-', scope: '-' };
    }
    return plan.waits === 'again' ? this.places.find((place) => !taken.includes(place)) : undefined;
  }

  private reserve(asked: ReservePlan, place: Place | undefined): Sends {
    const earlier =
      asked.repeats === undefined || place !== undefined
        ? undefined
        : this.requests[asked.repeats % (this.requests.length + 1)];
    const { key, plan } = place ?? earlier ?? { key: this.nextName('key-'), plan: asked };
    this.requests.push({ key, plan });
    const { tenant, subject, dryRun, policy, ttlMs, note, run, observe } = plan;
    const amount = earlier !== undefined && asked.isAltered ? plan.amount / 2n + 1n : plan.amount;
    const owner = this.tenants[tenant] as string;
    const id = `rsv_${this.client.tag.slice(2, 4)}${this.nextName('').padStart(16, '0')}`;
    this.asked.set(id, { tenant: owner, amount });
    return (client) =>
      client.reserve({
        ...{ tenant: owner, id, key, subject, amount, policy, ttlMs, dryRun, observe },
        facts: `side_effect|${run}|||`,
        fields: note === '' ? {} : { me: note },
        ...(place === undefined ? {} : { waiter: `9 8000 ${place.name} ${place.number} ${place.scope}` }),
      });
  }

  private async commit(plans: readonly CommitPlan[]): Promise<void> {
    await this.compare(plans.map((plan) => this.commitOf(plan)));
  }

  private commitOf({ hold, base, offset, unit, note, repeats }: CommitPlan): Sends {
    const id = this.holdAt(hold);
    const { tenant, amount } = this.holds.get(id) ?? { tenant: this.tenants[0] as string, amount: 0n };
    const wanted = { zero: 0n, estimate: amount, largest: INT64_MAX - 40n }[base] + offset;
    const earlier = repeats === undefined ? undefined : this.commits[repeats % (this.commits.length + 1)];
    const request = earlier ?? {
      id,
      key: this.nextName('key-'),
      actual: wanted < 0n ? 0n : wanted > INT64_MAX ? INT64_MAX : wanted,
    };
    this.commits.push(request);
    this.named.add(request.id);
    const owner = this.holds.get(request.id)?.tenant ?? tenant;
    return (client) =>
      client.commit(request.id, request.actual, { tenant: owner, key: request.key, unit, metadata: note });
  }

  private async debits(plans: readonly DebitPlan[]): Promise<void> {
    await this.compare(plans.map((plan) => this.debitOf(plan)));
  }

  private debitOf(asked: DebitPlan): Sends {
    const { repeats, isAltered } = asked;
    const earlier = repeats === undefined ? undefined : this.charges[repeats % (this.charges.length + 1)];
    const { key, plan } = earlier ?? { key: this.nextName('key-'), plan: asked };
    this.charges.push({ key, plan });
    const amount = earlier !== undefined && isAltered ? plan.amount / 2n + 1n : plan.amount;
    const { subject, policy, unit } = plan;
    const id = this.nextName('evn_');
    const owner = this.tenants[plan.tenant] as string;
    return (client) => debit(client, { tenant: owner, id, key, subject, amount, policy, unit });
  }

  /** Sends the calls to both sides. */
  private async compare(sends: readonly Sends[]): Promise<Batch> {
    const { tag, tenant, redis } = this.client;
    const collected = new CollectedCalls(redis);
    const client = new LedgerClient(redis, tag, tenant, collected);
    for (const send of sends) {
      await send(client);
    }
    const script = collected.called as Runnable;
    const [grouped, alone] = await Promise.all([
      this.sides.grouped.send(script, collected.calls),
      this.sides.alone.send(script, collected.calls),
    ]);
    const [stored, expected] = await Promise.all([
      this.sides.grouped.read(tag, this.now),
      this.sides.alone.read(tag, this.now),
    ]);
    const faults = [
      ...alone.texts.flatMap((text, index) =>
        text === grouped.texts[index]
          ? []
          : [`call ${index} in a run: ${shown(grouped.texts[index])}\n  alone: ${shown(text)}`],
      ),
      ...[...new Set([...stored.keys(), ...expected.keys()])]
        .filter((key) => stored.get(key) !== expected.get(key))
        .map((key) => `${key} in a run: ${stored.get(key)}\n  alone: ${expected.get(key)}`),
      ...(await this.untold(alone.told, grouped.told)),
    ];
    if (faults.length > 0) {
      throw new Error(faults.join('\n'));
    }
    this.note(script.name, alone, grouped, expected);
    return alone;
  }

  /**
   * Notifications are sent once per run, so only those that still count must be the same: of a first waiter who has funds now, in the
   * budget and in each of its windows.
   */
  private async untold(alone: readonly string[], grouped: readonly string[]): Promise<string[]> {
    const { redis, tag } = this.client;
    const counts = await Promise.all(
      [...new Set(alone)].map(async (message) => {
        const [place, unit, scope] = message.split(' ') as [string, string, string];
        const [first] = await redis.zrange(waiterQueueKey(tag, unit, scope), '0', '0');
        const budget = await redis.hgetall(budgetKey(tag, unit, scope));
        return first === place && leastRemaining(budget) >= BigInt(place.split('.')[2] as string);
      }),
    );
    return [...new Set(alone)]
      .filter((message, index) => counts[index] === true && !grouped.includes(message))
      .map((message) => `nobody in a run: told ${message}`);
  }

  /** Counts what happened in runs of several calls. */
  private note(script: string, alone: Batch, grouped: Batch, stored: ReadonlyMap<string, string>): void {
    const add = (what: string): unknown => this.tally.set(what, (this.tally.get(what) ?? 0) + 1);
    const shared = grouped.runs.filter((calls) => calls > 1).length;
    if (shared === 0) {
      return;
    }
    add('runs of several calls');
    if (grouped.runs.length > 1) {
      add('a run ended early');
    }
    if (grouped.told.length > 0) {
      add('a waiter was told');
    }
    if ([...stored].some(([key, text]) => key.includes('}b:') && /=\d{16,}"/.test(text))) {
      add('16 digits');
    }
    const events = JSON.stringify(stored.get(`${this.client.tag}events`) ?? '');
    if (events.includes('budget.threshold_crossed')) {
      add('threshold crossed');
    }
    for (const text of alone.texts) {
      const words = text.split(SEPARATOR);
      const [word, second] = words as [string, string | undefined];
      add(ANSWERS.has(second ?? '') ? `${word} ${second}` : word.startsWith(FAILED) ? 'failed' : word);
      if (word === 'BUDGET_EXCEEDED' && words.length > 4 && words[3] !== '') {
        add('BUDGET_EXCEEDED in a window');
      } else if (word === 'RECLAIMED') {
        add(`RECLAIMED in ${script}`);
      } else if (word === 'APPLIED' && words[5] !== '0') {
        add('APPLIED with debt');
      } else if (word === 'COMMITTED') {
        const [charged, , , policy, overage, debt] = words.slice(2);
        add(debt !== '0' ? 'COMMITTED with debt' : 'COMMITTED without debt');
        if (policy === 'ALLOW_IF_AVAILABLE' && overage === '0' && charged !== '0') {
          add('COMMITTED and capped');
        }
      }
    }
  }
}

function shown(text = 'nothing'): string {
  return text.replaceAll(SEPARATOR, ' ');
}

/** What remains in a budget or in the tightest of its windows: `name,limit,spent,starts,ends` of each, with spaces between. */
function leastRemaining({ remaining = '-1', reserved = '0', windows }: Record<string, string>): bigint {
  const inWindows = (windows?.split(' ') ?? []).map((window) => {
    const [, limit = '0', spent = '0'] = window.split(',');
    return BigInt(limit) - BigInt(spent) - BigInt(reserved);
  });
  return [BigInt(remaining), ...inWindows].reduce((least, next) => (next < least ? next : least));
}
