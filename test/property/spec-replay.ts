import type { SubjectLevels } from '../../src/ledger/scopes.js';
import {
  eventLogKey,
  keyRevokedChannel,
  periodIndexKey,
  tenantKey,
  ttlIndexKey,
} from '../../src/redis/keyspace.js';
import { debit } from '../support/admission-client.js';
import { fund, rollOver, setFrozen } from '../support/governance-client.js';
import { DEFAULT_UNIT, LedgerClient, randomText, RETENTION_MS, TRACE } from '../support/ledger-client.js';
import { chargedBy, faultsOf, isCrossing, linesOf, readLedger, snapshot } from '../support/ledger-state.js';
import { reserveSet } from '../support/reservation-sets.js';
import { changedKeys } from './readings.js';
import { CallsInOrder, readStored, setClock } from './spec-scripts.js';
import type { SpecBudget, SpecEvent, SpecRequest, SpecStep, Walk } from './spec-walks.js';

/** The scopes of the model, without the tenant. */
const SUBJECTS: Record<string, SubjectLevels> = {
  acme: {},
  'acme/dev': { workspace: 'dev' },
  'acme/dev/bot': { workspace: 'dev', agent: 'bot' },
  'acme/prod': { workspace: 'prod' },
  'acme/prod/bot': { workspace: 'prod', agent: 'bot' },
};
/** Of the model: the scope of the second reserve of a set, and what its number adds to that of the first. */
const [COMPANION, SECOND] = ['acme/prod/bot', 1000];
const MAX_EXTENSIONS = '1';
/** At the end of a debit's id: lua/ledger/lib/debit_record.lua. */
const INSTANT_DIGITS = 11;
/** In this event, `hold` is the instant. */
const PERIOD_ENDED = 'budget.reset_spent';
/** The position of a lease's remaining time in a reply; a replay recomputes it. */
const REMAINING_TTL: Record<string, number> = { ALLOW: 4, ACTIVE: 3 };

/** The scripts' replies to a step, and what was stored after it, unless its run went on. */
interface Observed {
  readonly reply: readonly string[];
  readonly stored: readonly [lines: string, events: number] | undefined;
  /** For another request under a used key: all keys before and after it. */
  readonly bytes: readonly ReadonlyMap<string, string>[];
}

/** Repeats a walk through the model against the scripts, and compares everything after each step. */
export class Replay {
  /** How many runs of the walk had several calls. */
  runsOfSeveral = 0;
  private readonly ledger: LedgerClient;
  private readonly calls: CallsInOrder;
  private readonly ids = new Map<number, string>();
  private readonly debits = new Map<number, string>();
  private readonly replies = new Map<number, readonly string[]>();
  private start = 0;

  /**
   * @param redis should pipeline automatically: all steps are sent before the first reply arrives
   * @param isGrouped whether calls of one script that follow each other share a run where they can
   */
  constructor(
    { redis, tag, tenant }: LedgerClient,
    private readonly walk: Walk,
    private readonly isGrouped = false,
  ) {
    this.calls = new CallsInOrder(redis);
    this.ledger = new LedgerClient(redis, tag, tenant, this.calls);
  }

  /** @throws Error after the first step at which scripts and model differ */
  async run(): Promise<void> {
    // Debits are found among the events from their instant on, and Redis numbers events by its own clock.
    this.start = (await this.ledger.serverTime()) - 60_000;
    await this.prepare();
    // No step depends on a reply: the walk determines which reserves create a hold, and with it the ids.
    const runs = runsOf(this.walk, this.isGrouped);
    this.runsOfSeveral = runs.filter(({ length }) => length > 1).length;
    const observed = (await Promise.all(runs.map((steps) => this.observe(steps)))).flat();
    const state = await readLedger(this.ledger);
    const log = state.events.map((event) => (isCrossing(event) ? undefined : nameOf(event.fields)));
    let seen = 0;
    let expected: SpecEvent[] = [];
    for (const [index, step] of this.walk.entries()) {
      const { reply, stored, bytes } = observed[index] as Observed;
      const faults = [...this.faultsOfReply(step, reply), ...bytesChanged(bytes)];
      expected.push(...step.told);
      if (stored !== undefined) {
        faults.push(
          ...differences(stored[0], this.linesOf(step)),
          ...differences(
            inOrder(log.slice(seen, stored[1])),
            inOrder(expected.map((event) => this.eventText(event))),
          ),
        );
        [seen, expected] = [stored[1], []];
      }
      if (faults.length > 0) {
        const { key, request, word, now } = step;
        throw new Error(
          `step ${index}, key ${key}, ${JSON.stringify(request)}, ${word} at ${now}:\n${faults.join('\n')}`,
        );
      }
    }
    const faults = [
      ...faultsOf(state),
      ...(state.holds.size === this.ids.size ? [] : ['there are more holds']),
      ...different(
        'entries of the journal',
        String(state.journal.length),
        String((this.walk.at(-1) as SpecStep).journal.length),
      ),
      ...different('charges in the journal', chargedBy(state).join(), this.charges().join()),
    ];
    if (faults.length > 0) {
      throw new Error(`at the end:\n${faults.join('\n')}`);
    }
  }

  private scope(name: string): string {
    return this.ledger.scope(SUBJECTS[name]);
  }

  private async prepare(): Promise<void> {
    await this.ledger.makeTenant({ max_reservation_extensions: MAX_EXTENSIONS });
    for (const [name, budget] of (this.walk[0] as SpecStep).budgets) {
      const { allocated, limit } = budget;
      await this.ledger.makeBudget({ scope: this.scope(name), allocated, overdraftLimit: limit });
      if (budget.period > 0) {
        await this.givePeriod(this.scope(name), budget);
      }
    }
  }

  private async givePeriod(scope: string, { ends, base, rollover }: SpecBudget): Promise<void> {
    const { redis, tag, tenant } = this.ledger;
    await redis.hset(this.ledger.budgetKeyOf(scope), {
      extras: '1',
      period_start: this.start,
      period_end: this.start + ends,
      rollover_policy: rollover,
      period_allocated: base,
      tenant_id: tenant,
      ledger_id: 'ldg_1',
    });
    await redis.zadd(periodIndexKey(tag), this.start + ends, `${scope} ${DEFAULT_UNIT}`);
  }

  /** Sends everything before the first reply, so that the commands of the next run follow these. */
  private async observe(steps: readonly SpecStep[]): Promise<Observed[]> {
    const step = steps.at(-1) as SpecStep;
    if (steps.length > 1) {
      const clock = setClock(this.ledger.redis, this.start + step.now);
      const replies = this.calls.inOneRun(() => steps.map((one) => this.send(one)));
      const stored = this.read(step);
      await clock;
      const seen = await stored;
      return (await Promise.all(replies)).map((reply, index) => ({
        reply,
        stored: index === steps.length - 1 ? seen : undefined,
        bytes: [],
      }));
    }
    return [await this.observeAlone(step)];
  }

  private async observeAlone(step: SpecStep): Promise<Observed> {
    const bytes: Promise<ReadonlyMap<string, string>>[] = [];
    const changesNothing = step.isReplay || step.word === 'IDEMPOTENCY_MISMATCH';
    const watch = (): unknown => changesNothing && bytes.push(snapshot(this.ledger));
    const clock = setClock(this.ledger.redis, this.start + step.now);
    watch();
    const reply = step.word === '' || step.word === 'LOST' ? [step.word] : this.send(step);
    watch();
    const stored = this.read(step);
    await clock;
    return { reply: await reply, stored: await stored, bytes: await Promise.all(bytes) };
  }

  private faultsOfReply(step: SpecStep, reply: readonly string[]): string[] {
    const faults = different('reply', reply[0], step.word);
    const earlier = this.replies.get(step.key);
    if (step.isReplay && earlier !== undefined) {
      return [
        ...faults,
        ...different('replay', withoutLease(reply), withoutLease(earlier.with(1, 'replay'))),
      ];
    }
    if (reply[1] === 'fresh') {
      this.replies.set(step.key, reply);
    }
    return reply[1] === 'replay' ? [...faults, 'answered from an earlier outcome'] : faults;
  }

  private send({ key, request, word, isReplay, now }: SpecStep): Promise<string[]> {
    const { ledger } = this;
    const { kind, scope, amount, policy, ttl, grace, charge } = request;
    if (kind === 'set') {
      return this.sendSet(key, request, word === 'ALLOW' && !isReplay);
    }
    const id = kind === 'reserve' ? ledger.newId() : (this.ids.get(request.hold) as string);
    const options = { key: `key-${key}` };
    switch (kind) {
      case 'reserve':
        if (word === 'ALLOW' && !isReplay) {
          this.ids.set(key, id);
        }
        return ledger.reserve({
          ...options,
          id,
          subject: SUBJECTS[scope] as SubjectLevels,
          amount,
          policy,
          ttlMs: ttl,
          graceMs: grace,
          ...(charge > 0 ? { fields: { ce: String(charge) } } : {}),
        });
      case 'commit':
        return ledger.commit(id, amount, options);
      case 'release':
        return ledger.release(id, options);
      case 'extend':
        return ledger.extend(id, ttl, options);
      case 'refund':
        return ledger.refund(this.debits.get(request.hold) ?? id, amount, options);
      case 'debit': {
        const debitId = `evn_${randomText(11)}`;
        if (word === 'APPLIED' && !isReplay) {
          this.debits.set(key, debitId + (this.start + now).toString(16).padStart(INSTANT_DIGITS, '0'));
        }
        const of = { ...options, id: debitId, subject: SUBJECTS[scope] as SubjectLevels };
        return debit(ledger, { ...of, amount, policy });
      }
      case 'fund':
        return fund(ledger, amount, { ...options, scope: this.scope(scope), fingerprint: String(amount) });
      case 'freeze':
      case 'unfreeze':
        return setFrozen(ledger, kind === 'freeze', this.scope(scope));
      case 'sweep':
        return ledger.expire(id);
      case 'rollover':
        return this.endPeriods();
      default:
        return this.close(kind);
    }
  }

  /** The word, the answer and the ids. */
  private async sendSet(key: number, request: SpecRequest, isGranted: boolean): Promise<string[]> {
    const { scope, amount, policy, ttl: ttlMs, grace: graceMs } = request;
    const members = [scope, COMPANION].map((place, index) => ({
      ...{ key: `key-${key}-${index}`, id: this.ledger.newId(), amount, policy, ttlMs, graceMs },
      subject: SUBJECTS[place] as SubjectLevels,
    }));
    if (isGranted) {
      members.forEach(({ id }, index) => this.ids.set(key + index * SECOND, id));
    }
    const { replies } = await reserveSet(this.ledger, members, { fingerprint: `set of ${amount}` });
    const [word = '', answer = ''] = replies[0] as string[];
    return [word, answer, ...replies.map((reply) => reply[2] ?? ''), '', ''];
  }

  private async endPeriods(): Promise<string[]> {
    return ['ROLLED', ...(await rollOver(this.ledger, 100))];
  }

  /** The steps in which the service does what the model does in one. */
  private async close(kind: string): Promise<string[]> {
    const { tag, tenant, scripts } = this.ledger;
    const record = tenantKey(tag, tenant);
    const phases: Record<string, string[]> = {
      close_holds: ['holds', 'unswept'],
      close_budgets: ['budgets', 'webhooks', 'keys'],
      close_end: ['end'],
    };
    if (kind === 'close') {
      return scripts.run('update_tenant', [record], [tenant, 'CLOSED', 'admin', '', 'req_close', TRACE]);
    }
    const replies = (phases[kind] ?? []).map((phase) =>
      scripts.run('close_tenant', [record], [tenant, phase, '', 100, RETENTION_MS, keyRevokedChannel()]),
    );
    return (await Promise.all(replies)).at(-1) as string[];
  }

  private read({ budgets }: SpecStep): Promise<[string, number]> {
    const { ledger } = this;
    return readStored(ledger.redis, {
      deadlines: ttlIndexKey(ledger.tag),
      log: eventLogKey(ledger.tag),
      budgets: [...budgets.keys()].map((name) => ledger.budgetKeyOf(this.scope(name))),
      holds: [...this.ids.values()].map((id) => ledger.reservationKeyOf(id)),
    });
  }

  /** What `read` finds if the scripts did what the model did. */
  private linesOf({ budgets, holds }: SpecStep): string {
    const made = [...this.ids].flatMap(([number]) => holds.get(number) ?? []);
    const deadlines = [...holds]
      .filter(([, { state }]) => state === 'ACTIVE')
      .map(([number, { expires, grace }]) => ({ id: this.ids.get(number), at: this.start + expires + grace }))
      .sort((a, b) => a.at - b.at || (String(a.id) < String(b.id) ? -1 : 1));
    return [
      ...[...budgets.values()].map((budget) => budgetText(budget, this.start)),
      ...made.map(({ state, amount, policy, grace, expires, extensions }) =>
        [state, amount, policy, grace, this.start + expires, extensions].join(),
      ),
      deadlines.map(({ id, at }) => `${id} ${at}`).join(' '),
    ].join('\n');
  }

  /** What the journal of the model charged each budget. */
  private charges(): string[] {
    const charged = new Map<string, bigint>();
    const { budgets, journal } = this.walk.at(-1) as SpecStep;
    for (const { leaf, charge } of journal) {
      for (const name of [...budgets.keys()].filter((at) => `${leaf}/`.startsWith(`${at}/`))) {
        const scope = `${DEFAULT_UNIT}:${this.scope(name)}`;
        charged.set(scope, (charged.get(scope) ?? 0n) + BigInt(charge));
      }
    }
    return linesOf(charged);
  }

  private eventText({ kind, scope, hold }: SpecEvent): string {
    const about = kind === PERIOD_ENDED ? this.start + hold : hold < 0 ? '-' : this.ids.get(hold);
    return [kind, scope === '' ? '-' : this.scope(scope), about].join(' ');
  }
}

/** The words after which a run ends, because the call has written what the group has changed. */
const LAST_OF_A_RUN = new Set(['RECLAIMED', 'RESERVATION_EXPIRED']);
const GROUPED_KINDS = new Set(['reserve', 'commit']);
const MOST_CALLS = 16;

/** The steps that share a run. Nothing comes between the calls of a run: no time, no other script, and no look at the keys. */
function runsOf(walk: Walk, isGrouped: boolean): SpecStep[][] {
  const runs: SpecStep[][] = [];
  for (const step of walk) {
    const run = runs.at(-1);
    const last = run?.at(-1);
    if (
      isGrouped &&
      run !== undefined &&
      last !== undefined &&
      run.length < MOST_CALLS &&
      last.now === step.now &&
      last.request.kind === step.request.kind &&
      !LAST_OF_A_RUN.has(last.word) &&
      [last, step].every(sharesRuns)
    ) {
      run.push(step);
    } else {
      runs.push([step]);
    }
  }
  return runs;
}

function sharesRuns({ request, word, isReplay }: SpecStep): boolean {
  return (
    GROUPED_KINDS.has(request.kind) &&
    !isReplay &&
    word !== '' &&
    word !== 'LOST' &&
    word !== 'IDEMPOTENCY_MISMATCH'
  );
}

function nameOf({
  ty: type,
  sc: scope = '-',
  reservation_id: hold = '-',
  previous_period_end: ended,
}: Readonly<Record<string, string>>): string {
  return [type, scope, ended ?? hold].join(' ');
}

function budgetText(budget: SpecBudget, start: number): string {
  const { remaining, reserved, spent, allocated, debt, limit, over, frozen, closed, returned, ends, period } =
    budget;
  const figures = [remaining, reserved, spent, allocated, debt, limit];
  const end = period === 0 ? 0 : start + ends;
  return [...figures, over ? 1 : 0, closed ? 'CLOSED' : frozen ? 'FROZEN' : 'ACTIVE', returned, end].join();
}

function withoutLease(reply: readonly string[]): string {
  return reply.with(REMAINING_TTL[reply[0] as string] ?? 0, '').join(' ');
}

function bytesChanged([before, after]: readonly ReadonlyMap<string, string>[]): string[] {
  return before === undefined || after === undefined
    ? []
    : changedKeys(before, after).map((key) => `a replay changed ${key}`);
}

function inOrder(names: readonly (string | undefined)[]): string {
  return names
    .filter((name) => name !== undefined)
    .sort()
    .join('\n');
}

/** The lines in which the texts differ. */
function differences(actual: string, expected: string): string[] {
  const [lines, wanted] = [actual.split('\n'), expected.split('\n')];
  return actual === expected
    ? []
    : Array.from({ length: Math.max(lines.length, wanted.length) }, (_, index) =>
        different(`line ${index}`, lines[index], wanted[index]),
      ).flat();
}

function different(what: string, actual: string | undefined, expected: string | undefined): string[] {
  return actual === expected ? [] : [`${what}: the scripts have ${actual}, the model has ${expected}`];
}
