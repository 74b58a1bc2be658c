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

/** One request, which is always sent as it is, under one idempotency key. */
export interface Entry {
  readonly kind: Kind;
  readonly body: Json;
  /** Whose reservation it is about. */
  readonly hold?: Entry;
  /** What the first answer said; nothing while none has come. */
  answer?: Json;
  /** When it came, by the monotonic clock. */
  answeredAt?: number;
}

/** Of each budget, and of each of its periods. */
export const ALLOCATED = 1_000_000_000;
const WORKSPACES = ['red', 'blue'] as const;
/** The shortest lease there is; nobody touches such a hold again, so that it expires. */
const SHORT_MS = 1000;
const LONG_MS = 3_600_000;
/** Before a client goes on that got no answer. */
const PAUSE_MS = 100;

/**
 * Clients of one tenant that write down each request before they send it, and what was answered. So after a crash it is known
 * what was acknowledged and what may or may not have been done. A request that was not answered ends its reservation's
 * story: no later one depends on an unknown outcome.
 */
export class JournaledLoad {
  readonly entries: Entry[] = [];
  /** Whether a reservation that was answered may be unknown later: after a failover that lost it. Its story ends there. */
  mayLose = false;
  /** How many were unknown. */
  unknown = 0;
  /** Longest pause of a client between two reservations. */
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

  /** Entries that were answered. */
  get acknowledged(): Entry[] {
    return this.entries.filter(({ answer }) => answer !== undefined);
  }

  /** The reserves that were answered. */
  get holds(): Entry[] {
    return this.acknowledged.filter(({ kind }) => kind === 'reserve');
  }

  /** Those that nobody will touch any more. */
  get abandoned(): Entry[] {
    return this.holds.filter(({ body }) => body.ttl_ms === SHORT_MS);
  }

  /** Clients side by side until `stop`. Resolves when each has its last answer, or none. */
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

  /** One more reserve, for a client that wants to see the answer, whatever it is. */
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

  /** Sends what was not answered until it is. */
  async settle(): Promise<void> {
    for (const entry of this.entries) {
      while (entry.answer === undefined) {
        await this.send(entry);
      }
    }
  }

  /** Sends everything once more, and names the entries that were answered with another outcome than at first. */
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

  /** Forgets every answer, as clients do that start anew with their notes of what they meant to do. */
  forget(): void {
    for (const entry of this.entries) {
      delete entry.answer;
      delete entry.answeredAt;
    }
  }

  /** One reservation from its making to its end, or something else that takes one request. */
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

  /** Whether it was answered. Anything but success and "come again" is a defect. */
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

  /** The balances of every scope that the answers add up to, in the form of `HoldfastClient.balances`. */
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

/** An answer without what changes by itself as time passes. */
export function outcomeOf(answer: Json): string {
  return JSON.stringify({ ...answer, remaining_ttl_ms: undefined }, (_, value: unknown) =>
    typeof value === 'bigint' ? String(value) : value,
  );
}
