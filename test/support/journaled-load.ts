import { setTimeout as delay } from 'node:timers/promises';
import {
  expectStatus,
  newKey,
  type Answer,
  type HoldfastClient,
  type Json,
  type TestTenant,
} from './holdfast.js';
import { NoAnswer } from './send.js';

export type Kind = 'reserve' | 'commit' | 'release' | 'extend' | 'fund' | 'debit';

/** A request, always sent unchanged under the same idempotency key. */
export interface Entry {
  readonly kind: Kind;
  readonly body: Json;
  /** The entry that made the reservation, if this one is about an existing reservation. */
  readonly hold?: Entry;
  /** The body of the first success; missing until one has arrived. */
  answer?: Json;
  /** When it arrived, by the monotonic clock. */
  answeredAt?: number;
}

/** The allocation of each budget, and of each of its periods. */
export const ALLOCATED = 1_000_000_000;
const WORKSPACES = ['red', 'blue'] as const;
/** The shortest possible lease. Nobody touches such a hold again, so it expires. */
const SHORT_MS = 1000;
const LONG_MS = 3_600_000;
/** How long a client pauses after a request without a response. */
const PAUSE_MS = 100;

/**
 * Clients of one tenant that record each request before they send it, and then its response. After a crash,
 * this tells what was acknowledged, and what may or may not have happened. A reservation ends with its first
 * request that got no response: no later one depends on an unknown outcome.
 */
export class JournaledLoad {
  readonly entries: Entry[] = [];
  /**
   * Whether an acknowledged reservation may be unknown later, after a failover that lost it. The client then
   * drops it.
   */
  mayLose = false;
  /** How many reservations were unknown. */
  unknown = 0;
  /** The longest pause of a client between two reservations. */
  pauseMs = 0;
  private stopped = false;

  private constructor(
    public client: HoldfastClient,
    readonly tenant: TestTenant,
    private readonly random: () => number,
  ) {}

  /** A new tenant with budgets at three scopes. */
  static async make(client: HoldfastClient, random: () => number): Promise<JournaledLoad> {
    const tenant = await client.createTenant();
    for (const below of ['', ...WORKSPACES.map((name) => `/workspace:${name}`)]) {
      await client.createBudget(tenant, below, ALLOCATED);
    }
    return new JournaledLoad(client, tenant, random);
  }

  /** The entries that were acknowledged. */
  get acknowledged(): Entry[] {
    return this.entries.filter(({ answer }) => answer !== undefined);
  }

  /** The reserves that were acknowledged. */
  get holds(): Entry[] {
    return this.acknowledged.filter(({ kind }) => kind === 'reserve');
  }

  /** The holds that nobody will touch any more. */
  get abandoned(): Entry[] {
    return this.holds.filter(({ body }) => body.ttl_ms === SHORT_MS);
  }

  /**
   * Runs clients concurrently until `stop`. Resolves when the last request of each has ended, with or without
   * a response.
   */
  async run(clients: number): Promise<void> {
    this.stopped = false;
    await Promise.all(
      Array.from({ length: clients }, async () => {
        while (!this.stopped) {
          await this.live();
          if (this.pauseMs > 0) {
            await delay(this.random() * this.pauseMs);
          }
        }
      }),
    );
  }

  stop(): void {
    this.stopped = true;
  }

  /** Sends one more reserve and returns its response, whatever that is. */
  async ask(): Promise<Answer> {
    const entry: Entry = {
      kind: 'reserve',
      body: { ...this.request(), ttl_ms: LONG_MS, estimate: tokens(this.amount()) },
    };
    this.entries.push(entry);
    const answer = await this.call(entry);
    if (answer.status === 200) {
      entry.answer = answer.body;
    }
    return answer;
  }

  /** Sends every request that was not acknowledged until it is. */
  async settle(): Promise<void> {
    for (const entry of this.entries) {
      while (entry.answer === undefined) {
        await this.send(entry);
      }
    }
  }

  /** Sends every request again, and names the entries whose outcome differs from the first. */
  async replay(): Promise<string[]> {
    const different: string[] = [];
    const waiting = [...this.entries];
    await Promise.all(
      Array.from({ length: 8 }, async () => {
        for (let entry = waiting.shift(); entry !== undefined; entry = waiting.shift()) {
          const again = outcomeOf(expectStatus(await this.call(entry), statusOf(entry)));
          const first = outcomeOf(entry.answer);
          if (again !== first) {
            different.push(`${entry.kind} ${entry.body.idempotency_key}: first ${first}, then ${again}`);
          }
        }
      }),
    );
    return different;
  }

  /** Forgets all responses, like a client that restarts with only its notes of what it meant to do. */
  forget(): void {
    for (const entry of this.entries) {
      delete entry.answer;
      delete entry.answeredAt;
    }
  }

  /** One reservation from its creation to its end, or another operation that takes one request. */
  private async live(): Promise<void> {
    const what = this.random();
    if (what < 0.1) {
      const body = { operation: 'CREDIT', amount: tokens(this.amount()), reason: 'more' };
      await this.record({ kind: 'fund', body: { ...body, ...keyed() } });
    } else if (what < 0.25) {
      await this.record({ kind: 'debit', body: { ...this.request(), actual: tokens(this.amount()) } });
    } else {
      await this.reservation(what < 0.35 ? SHORT_MS : LONG_MS);
    }
  }

  private async reservation(ttlMs: number): Promise<void> {
    const estimate = this.amount();
    const policy = { overage_policy: 'ALLOW_IF_AVAILABLE', ttl_ms: ttlMs, grace_period_ms: 0 };
    const hold: Entry = {
      kind: 'reserve',
      body: { ...this.request(), ...policy, estimate: tokens(estimate) },
    };
    if (!(await this.record(hold)) || ttlMs === SHORT_MS) {
      return;
    }
    while (this.random() < 0.3) {
      if (
        !(await this.record({ kind: 'extend', hold, body: { extend_by_ms: 1 + this.amount(), ...keyed() } }))
      ) {
        return;
      }
    }
    const end = this.random();
    if (end < 0.5) {
      await this.record({
        kind: 'commit',
        hold,
        body: { actual: tokens(this.random() < 0.5 ? estimate : this.amount()), ...keyed() },
      });
    } else if (end < 0.8) {
      await this.record({ kind: 'release', hold, body: keyed() });
    }
  }

  private amount(): number {
    return 1 + Math.floor(this.random() * 1000);
  }

  private request(): Json {
    const workspace = WORKSPACES[Math.floor(this.random() * WORKSPACES.length)];
    return {
      ...keyed(),
      subject: { tenant: this.tenant.id, workspace },
      action: { kind: 'llm.completion', name: 'test-model' },
    };
  }

  private async record(entry: Entry): Promise<boolean> {
    this.entries.push(entry);
    return this.send(entry);
  }

  /** Whether it was acknowledged. Any response other than success and "try again later" is a defect. */
  private async send(entry: Entry): Promise<boolean> {
    let answer: Answer;
    try {
      answer = await this.call(entry);
    } catch (error) {
      if (error instanceof NoAnswer) {
        return delay(PAUSE_MS, false);
      }
      throw error;
    }
    if (answer.status === 503 && answer.headers.get('retry-after') !== null) {
      return delay(PAUSE_MS, false);
    }
    if (this.mayLose && entry.hold !== undefined && answer.status === 404) {
      this.unknown += 1;
      return false;
    }
    entry.answer = expectStatus(answer, statusOf(entry));
    entry.answeredAt = performance.now();
    return true;
  }

  private call({ kind, body, hold }: Entry): Promise<Answer> {
    const { key, id } = this.tenant;
    switch (kind) {
      case 'fund':
        return this.client.admin(
          'POST',
          `/v1/admin/budgets/fund?tenant_id=${id}&scope=tenant:${id}&unit=TOKENS`,
          body,
        );
      case 'debit':
        return this.client.call('POST', '/v1/events', { key, body });
      case 'reserve':
        return this.client.call('POST', '/v1/reservations', { key, body });
      default:
        return this.client.call('POST', `/v1/reservations/${hold?.answer.reservation_id}/${kind}`, {
          key,
          body,
        });
    }
  }

  /** The balances of all scopes that the responses add up to, in the form of `HoldfastClient.balances`. */
  expectedBalances(): Record<string, string> {
    const root = `tenant:${this.tenant.id}`;
    const scopes = new Map(
      [root, ...WORKSPACES.map((name) => `${root}/workspace:${name}`)].map((scope) => [
        scope,
        { allocated: ALLOCATED, reserved: 0, spent: 0 },
      ]),
    );
    const add = (entry: Entry, figure: 'reserved' | 'spent', amount: number): void => {
      for (const scope of [root, `${root}/workspace:${(entry.hold ?? entry).body.subject.workspace}`]) {
        (scopes.get(scope) as { reserved: number; spent: number })[figure] += amount;
      }
    };
    for (const entry of this.acknowledged) {
      const { kind, body, hold } = entry;
      if (kind === 'fund') {
        (scopes.get(root) as { allocated: number }).allocated += body.amount.amount;
      } else if (kind === 'debit' || kind === 'commit') {
        add(entry, 'spent', body.actual.amount);
      } else if (kind === 'reserve' && body.ttl_ms === LONG_MS) {
        add(entry, 'reserved', body.estimate.amount);
      }
      if (kind === 'commit' || kind === 'release') {
        add(entry, 'reserved', -hold?.body.estimate.amount);
      }
    }
    const figures = [...scopes].map(([scope, { allocated, reserved, spent }]) => [
      scope,
      `${allocated - spent - reserved} ${reserved} ${spent} 0`,
    ]);
    return Object.fromEntries(figures) as Record<string, string>;
  }
}

const tokens = (amount: number): Json => ({ unit: 'TOKENS', amount });
const keyed = (): Json => ({ idempotency_key: newKey() });
const statusOf = ({ kind }: Entry): number => (kind === 'debit' ? 201 : 200);

/** A response without the parts that change as time passes. */
export function outcomeOf(answer: Json): string {
  return JSON.stringify({ ...answer, remaining_ttl_ms: undefined }, (_, value: unknown) =>
    typeof value === 'bigint' ? String(value) : value,
  );
}
