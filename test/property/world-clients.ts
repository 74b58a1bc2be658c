import type { Redis } from 'ioredis';
import { OVERAGE_POLICIES } from '../../src/ledger/amount.js';
import type { SubjectLevels } from '../../src/ledger/scopes.js';
import { StoreUnavailable } from '../../src/redis/errors.js';
import { idempotencyKey } from '../../src/redis/keyspace.js';
import { type Arguments, type Reply, ScriptRegistry } from '../../src/redis/scripts.js';
import type { Runnable } from '../../src/redis/script-library.js';
import { debit } from '../support/admission-client.js';
import { fund } from '../support/governance-client.js';
import {
  IDEMPOTENCY_TTL_MS,
  LedgerClient,
  randomText,
  RETENTION_MS as USUAL_RETENTION_MS,
} from '../support/ledger-client.js';
import { type Funding, FUNDINGS } from './model-funding.js';
import { chargeField, type ModelBudget, type ModelHold } from './model-records.js';
import { undatedFunding } from './readings.js';
import { Connection } from './world-connection.js';
import type { Verdict, WorldLedger } from './world-ledger.js';
import { RETENTION_MS } from './world-service.js';
import { Actor, type WorldTime } from './world-time.js';

/** How long a client repeats a request, and asks about a hold that has ended. */
const REPEATED_MS = 15_000;
const REMEMBERED = 20;
/** Workspaces get their budgets from a template. */
const SUBJECTS: readonly SubjectLevels[] = [
  {},
  { agent: 'bot' },
  { agent: 'other' },
  ...Array.from({ length: 12 }, (_, number) => ({ workspace: `w${number}` })),
];
const KNOWN_SUBJECTS = 3;
const UNIT = 'TOKENS';
/** Requests of one script that a client sends at once. */
const MOST_AT_ONCE = 8;

/** A request, which may be sent several times. */
interface Request {
  readonly ledger: WorldLedger;
  readonly bornAt: number;
  readonly send: (client: LedgerClient) => Promise<Reply>;
  readonly verdict: Verdict;
  /** The part of a reply that the model knows. */
  readonly known: (reply: string[]) => string[];
  readonly isRepeatable: boolean;
  /** The idempotency key of a request whose script shares runs. */
  readonly shares?: { readonly script: 'reserve' | 'commit'; readonly key: string };
}

/** The scripts with the play's retention, which is short enough to pass during the play. */
class ShortLived extends ScriptRegistry {
  protected override send(script: Runnable, keys: Arguments, args: Arguments): Promise<Reply> {
    const shortened = args.map((arg) =>
      arg === USUAL_RETENTION_MS || arg === IDEMPOTENCY_TTL_MS ? RETENTION_MS : arg,
    );
    return super.send(script, keys, shortened);
  }
}

/** A client of the ledger that sends one request at a time, or several that share a run. It repeats most requests that got no reply. */
export class WorldClient {
  readonly actor: Actor;
  readonly connection: Connection;
  isBusy = false;
  private readonly clients: Map<WorldLedger, LedgerClient>;
  private unanswered: Request | undefined;
  private remembered: Request[] = [];

  constructor(
    name: string,
    ledgers: readonly WorldLedger[],
    private readonly time: WorldTime,
    private readonly failed: (error: unknown) => void,
  ) {
    this.actor = new Actor(name);
    this.connection = Connection.of(this.actor);
    const redis = this.connection as unknown as Redis;
    this.clients = new Map(
      ledgers.map((ledger) => [
        ledger,
        new LedgerClient(redis, ledger.client.tag, ledger.client.tenant, new ShortLived(redis)),
      ]),
    );
  }

  /**
   * Starts the next requests.
   * @returns a description for the record of the play
   */
  begin(): string {
    return this.time.as(this.actor, () => {
      const requests = this.nextOnes();
      this.isBusy = true;
      this.connection.judge = (ledger, replies, fresh, now, keys) =>
        ledger.judge(
          replies.map((text, index) => {
            const { verdict, known } = requestOf(requests, keys[index] as readonly string[]);
            return { verdict, reply: known(text) };
          }),
          fresh,
          now,
        );
      void Promise.all(requests.map((request) => this.perform(request))).finally(() => (this.isBusy = false));
      return `${this.actor.name} begins ${requests.length} requests`;
    });
  }

  /** Sometimes further new requests of the same script and ledger. */
  private nextOnes(): Request[] {
    const { random } = this.time;
    const requests = [this.next()];
    const [{ ledger, shares }] = requests as [Request];
    const count = shares === undefined || random() < 0.7 ? 1 : 2 + Math.floor(random() * (MOST_AT_ONCE - 1));
    while (requests.length < count) {
      const next = shares?.script === 'reserve' ? this.reserve(ledger) : this.commit(ledger);
      if (next === undefined || next.shares?.script !== shares?.script) {
        break;
      }
      requests.push(next);
      this.remembered.push(next);
    }
    return requests;
  }

  private next(): Request {
    const { random, nowMs } = this.time;
    this.remembered = this.remembered.filter(({ bornAt }) => nowMs - bornAt < REPEATED_MS).slice(-REMEMBERED);
    const { unanswered } = this;
    this.unanswered = undefined;
    if (unanswered !== undefined && nowMs - unanswered.bornAt < REPEATED_MS && random() < 0.8) {
      return unanswered;
    }
    const repeated = random() < 0.12 ? this.one(this.remembered) : undefined;
    if (repeated !== undefined) {
      return repeated;
    }
    const request = this.choose();
    if (request.isRepeatable) {
      this.remembered.push(request);
    }
    return request;
  }

  private async perform(request: Request): Promise<void> {
    try {
      let reply: Reply;
      do {
        reply = await request.send(this.clients.get(request.ledger) as LedgerClient);
      } while (reply[0] === 'RECLAIMED');
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) {
        this.failed(error);
      }
      this.unanswered = request.isRepeatable ? request : undefined;
    }
  }

  private choose(): Request {
    const { random } = this.time;
    const ledger = this.one([...this.clients.keys()]) as WorldLedger;
    const kind = random();
    if (kind < 0.38) {
      return this.reserve(ledger);
    }
    if (kind < 0.78) {
      return this.settle(ledger, kind);
    }
    return kind < 0.88 ? this.debit(ledger) : this.fund(ledger);
  }

  private reserve(ledger: WorldLedger): Request {
    const amount = BigInt(Math.floor(this.time.random() * 150));
    const request = {
      ...this.charged(ledger),
      id: ledger.client.newId(),
      amount,
      charge:
        this.time.random() < 0.3 ? (amount * BigInt(Math.floor(this.time.random() * 101))) / 100n : undefined,
      ttlMs: 1000 + Math.floor(this.time.random() * 20_000),
      graceMs: Math.floor(this.time.random() * 4000),
      dryRun: this.time.random() < 0.05,
    };
    const { tenant, key } = request;
    return this.request(ledger, {
      send: (client) => client.reserve({ ...request, ...chargeField(request), by: client.tenant }),
      verdict: (model, now) => model.reserve(request, now),
      shares: { script: 'reserve', key: idempotencyKey.reserve(ledger.client.tag, tenant, key) },
    });
  }

  private debit(ledger: WorldLedger): Request {
    const request = {
      ...this.charged(ledger),
      id: `evn_${randomText(18)}`,
      actual: BigInt(Math.floor(this.time.random() * 80)),
    };
    return this.request(ledger, {
      send: (client) => debit(client, { ...request, amount: request.actual }),
      // The script adds the instant to the id.
      verdict: (model, now) =>
        model.debit({ ...request, id: `${request.id}${now.toString(16).padStart(11, '0')}` }, now),
    });
  }

  private charged(ledger: WorldLedger): {
    tenant: string;
    key: string;
    subject: SubjectLevels;
    unit: string;
    policy: string;
  } {
    return {
      tenant: this.one([...ledger.model.tenants.keys()]) as string,
      key: randomText(12),
      subject: this.one(
        this.time.random() < 0.8 ? SUBJECTS.slice(0, KNOWN_SUBJECTS) : SUBJECTS,
      ) as SubjectLevels,
      unit: UNIT,
      policy: this.one(['', ...OVERAGE_POLICIES]) as string,
    };
  }

  /** Mostly a live one. */
  private holdOf(ledger: WorldLedger): ModelHold | undefined {
    const { random } = this.time;
    const all = [...ledger.model.holds.values()].filter(
      ({ seenEndedAt = Infinity }) => this.time.nowMs - REPEATED_MS < seenEndedAt,
    );
    const live = all.filter(({ state }) => state === 'ACTIVE');
    return this.one(random() < 0.8 && live.length > 0 ? live : all);
  }

  private commit(ledger: WorldLedger, hold = this.holdOf(ledger)): Request | undefined {
    if (hold === undefined) {
      return undefined;
    }
    const { id, tenant, unit } = hold;
    const key = randomText(12);
    const actual = (hold.amount * BigInt(Math.floor(this.time.random() * 150))) / 100n;
    return this.request(ledger, {
      send: (client) => client.commit(id, actual, { tenant, key, unit }),
      verdict: (model, now) => model.commit({ id, tenant, key, unit, actual }, now),
      shares: { script: 'commit', key: idempotencyKey.commit(ledger.client.tag, tenant, id, key) },
    });
  }

  /** Commits, releases, extends, refunds or reads a hold. */
  private settle(ledger: WorldLedger, kind: number): Request {
    const { random } = this.time;
    const hold = this.holdOf(ledger);
    if (hold === undefined) {
      return this.reserve(ledger);
    }
    const target = { id: hold.id, tenant: hold.tenant, key: randomText(12) };
    const { id, tenant, key } = target;
    if (kind < 0.54) {
      return this.commit(ledger, hold) as Request;
    }
    if (kind < 0.62) {
      return this.request(ledger, {
        send: (client) => client.release(id, { tenant, key }),
        verdict: (model, now) => model.release(target, now),
      });
    }
    if (kind < 0.72) {
      const byMs = 1000 + Math.floor(random() * 5000);
      return this.request(ledger, {
        send: (client) => client.extend(id, byMs, { tenant, key }),
        verdict: (model, now) => model.extend({ ...target, byMs }, now),
      });
    }
    if (kind < 0.75) {
      const [amount, unit] = [BigInt(1 + Math.floor(random() * 20)), hold.unit];
      return this.request(ledger, {
        send: (client) => client.refund(id, String(amount), { tenant, key, unit }),
        verdict: (model, now) => model.refund({ ...target, unit, amount }, now),
      });
    }
    return this.request(ledger, {
      send: (client) => client.get(id, tenant),
      verdict: (model, now) => model.get(id, tenant, now),
      known: (reply) => (reply[0] === 'FOUND' ? ['FOUND', reply[reply.indexOf('st') + 1] as string] : reply),
    });
  }

  /** Funding has no key here, so a request without a reply is not repeated. */
  private fund(ledger: WorldLedger): Request {
    const { random } = this.time;
    const { scope, unit } = this.one(ledger.model.budgets) as ModelBudget;
    const operation = this.one([...FUNDINGS, 'CREDIT', 'RESET_SPENT']) as Funding;
    const amount = BigInt(Math.floor(random() * (operation === 'RESET_SPENT' ? 2000 : 300)));
    const spent = operation === 'RESET_SPENT' ? BigInt(Math.floor(random() * 100)) : undefined;
    return {
      ...this.request(ledger, {
        send: (client) => fund(client, amount, { scope, unit, operation, spent: spent ?? '' }),
        verdict: (model, now) => {
          const budget = model.budgets.find((one) => one.scope === scope && one.unit === unit);
          return model.fund(budget as ModelBudget, { operation, amount, spent }, now);
        },
        known: undatedFunding,
      }),
      isRepeatable: false,
    };
  }

  private request(
    ledger: WorldLedger,
    parts: Pick<Request, 'send' | 'verdict' | 'shares'> & Partial<Pick<Request, 'known'>>,
  ): Request {
    return { ledger, bornAt: this.time.nowMs, known: (reply) => reply, isRepeatable: true, ...parts };
  }

  private one<Item>(items: readonly Item[]): Item | undefined {
    return items[Math.floor(this.time.random() * items.length)];
  }
}

/** The request of a call. A run may end before its last call, so calls are known by their idempotency keys. */
function requestOf(requests: readonly Request[], keys: readonly string[]): Request {
  const [only] = requests as [Request];
  return requests.length === 1
    ? only
    : (requests.find(({ shares }) => keys.includes(shares?.key ?? '')) as Request);
}
