import { setTimeout as delay } from 'node:timers/promises';
import { randomFrom } from '../../../scripts/seed.mjs';
import { type Answer, expectStatus, type HoldfastClient, type Json, type TestTenant } from '../holdfast.js';
import { NoAnswer } from '../send.js';
import type { Crash } from '../cluster-site.js';
import { type Loss, momentsOf, withLosses } from './crashes.js';
import { explain, type Attempt, type Verdict } from './order.js';
import { balanceText, tenantModel, type LedgerRequest } from './tenant-model.js';

/** The root is ''. Small enough that some reserves are refused. */
const ALLOCATED: Readonly<Record<string, number>> = { '': 700, red: 500, blue: 400 };
const WORKSPACES = ['red', 'blue'];
const LEASE_MS = 3_600_000;
const HOLDS_KEPT = 6;
/** How long a client pauses after a request without a response. */
const PAUSE_MS = 60;
const ATTEMPTS = 40;
/** How often a client sends several requests at once, and how many. */
const AT_ONCE = 0.3;
const MOST_AT_ONCE = 3;

interface KnownHold {
  readonly key: string;
  readonly id: string;
  readonly expiresAt: number;
}

/**
 * Clients of one tenant that share their holds, so that several may settle the same one at once. They record
 * what they requested, when, and what they got. Each request goes to a random instance; most requests without
 * a response are repeated with the same key.
 */
export class RecordedClients {
  readonly attempts: Attempt<LedgerRequest>[] = [];
  private readonly holds: KnownHold[] = [];
  /** By key, what must be the same in all responses to a reserve: the id and the end of the lease. */
  private readonly made = new Map<string, string>();
  private readonly faults: string[] = [];
  private stopped = false;

  private constructor(
    private readonly tenant: TestTenant,
    private readonly instances: () => readonly HoldfastClient[],
    private readonly seed: number,
  ) {}

  static async make(instances: () => readonly HoldfastClient[], seed: number): Promise<RecordedClients> {
    const [first] = instances() as [HoldfastClient];
    const tenant = await first.createTenant();
    for (const [name, amount] of Object.entries(ALLOCATED)) {
      await first.createBudget(tenant, name === '' ? '' : `/workspace:${name}`, amount);
    }
    return new RecordedClients(tenant, instances, seed);
  }

  get tenantId(): string {
    return this.tenant.id;
  }

  get answered(): number {
    return this.attempts.filter(({ answer }) => answer !== undefined).length;
  }

  async run(clients: number): Promise<void> {
    await Promise.all(
      Array.from({ length: clients }, async (_, index) => {
        const random = randomFrom(this.seed + index);
        for (let count = 0; !this.stopped; count += 1) {
          // Requests that come at once can share a run.
          const atOnce = random() < AT_ONCE ? MOST_AT_ONCE : 1;
          const requests = Array.from({ length: atOnce }, (_, part) =>
            this.choose(`${index}.${count}.${part}`, random),
          );
          await Promise.all(requests.map((request) => this.persist(request, random)));
        }
      }),
    );
  }

  stop(): void {
    this.stopped = true;
  }

  /**
   * The outcome of the search, with the faults of the history if there are any.
   * @param crash the crash of the master that owns the tenant: it may have lost what its replica had not
   * received
   */
  verdict(crash?: Crash): {
    readonly word: Verdict<LedgerRequest | Loss>['word'];
    readonly faults: readonly string[];
  } {
    const { history, repeated } = requestsAround(this.attempts, crash);
    const model = withLosses(tenantModel(ALLOCATED, repeated));
    const verdict = explain<Parameters<typeof model.nameOf>[0], LedgerRequest | Loss>(history, model);
    const faults =
      verdict.word === 'violated'
        ? [
            `no order explains more than ${verdict.order.length} of ${history.length} requests`,
            ...verdict.next,
          ]
        : [];
    return { word: verdict.word, faults: [...this.faults, ...faults] };
  }

  private choose(key: string, random: () => number): LedgerRequest {
    const amount = 1 + Math.floor(random() * 120);
    const what = random();
    const hold = this.holds[Math.floor(random() * this.holds.length)];
    if (what < 0.08) {
      return { kind: 'fund', key, amount };
    }
    if (what < 0.5 || hold === undefined) {
      const workspace = WORKSPACES[Math.floor(random() * WORKSPACES.length)] as string;
      return { kind: 'reserve', key, workspace, amount };
    }
    if (what < 0.6) {
      return { kind: 'extend', key, hold: hold.key, byMs: amount };
    }
    return what < 0.8
      ? { kind: 'release', key, hold: hold.key }
      : { kind: 'commit', key, hold: hold.key, amount };
  }

  private async persist(request: LedgerRequest, random: () => number): Promise<void> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
      const instances = this.instances();
      const instance = instances[Math.floor(random() * instances.length)] as HoldfastClient;
      if (await this.attempt(instance, request)) {
        return;
      }
      await delay(PAUSE_MS);
      if (random() < 0.02) {
        return;
      }
    }
  }

  /** Whether the outcome is known. A response that says "try again later" leaves it open. */
  private async attempt(instance: HoldfastClient, request: LedgerRequest): Promise<boolean> {
    const sentAt = performance.now();
    const answer = await this.call(instance, request).catch((error: unknown) => {
      if (error instanceof NoAnswer) {
        return undefined;
      }
      throw error;
    });
    if (answer === undefined || answer.status === 503) {
      this.attempts.push({ request, sentAt, answeredAt: Infinity });
      return false;
    }
    this.attempts.push({
      request,
      sentAt,
      answeredAt: performance.now(),
      answer: this.textOf(request, answer),
    });
    return true;
  }

  private call(instance: HoldfastClient, request: LedgerRequest): Promise<Answer> {
    const { id, key } = this.tenant;
    const body: Json = { idempotency_key: `${id}-${request.key}` };
    const amount = 'amount' in request ? { unit: 'TOKENS', amount: request.amount } : undefined;
    switch (request.kind) {
      case 'fund':
        return instance.admin(
          'POST',
          `/v1/admin/budgets/fund?tenant_id=${id}&scope=tenant:${id}&unit=TOKENS`,
          {
            ...body,
            operation: 'CREDIT',
            amount,
          },
        );
      case 'reserve':
        return instance.call('POST', '/v1/reservations', {
          key,
          body: {
            ...body,
            subject: { tenant: id, workspace: request.workspace },
            action: { kind: 'llm.completion', name: 'test-model' },
            estimate: amount,
            overage_policy: 'REJECT',
            ttl_ms: LEASE_MS,
          },
        });
      default: {
        const hold = this.holdOf(request.hold);
        const more = request.kind === 'extend' ? { extend_by_ms: request.byMs } : { actual: amount };
        return instance.call('POST', `/v1/reservations/${hold.id}/${request.kind}`, {
          key,
          body: { ...body, ...(request.kind === 'release' ? {} : more) },
        });
      }
    }
  }

  private readonly known = new Map<string, KnownHold>();

  private holdOf(key: string): KnownHold {
    return this.known.get(key) as KnownHold;
  }

  private textOf(request: LedgerRequest, answer: Answer): string {
    const { body } = answer;
    if (answer.status >= 400 && answer.status < 500) {
      return body.error as string;
    }
    expectStatus(answer, 200);
    switch (request.kind) {
      case 'reserve':
        this.remember(request.key, body);
        return `ALLOW ${balancesOf(body.balances)}`;
      case 'extend':
        return `ACTIVE +${body.expires_at_ms - this.holdOf(request.hold).expiresAt}`;
      case 'fund':
        return `FUNDED ${body.new_allocated.amount} ${body.new_remaining.amount}`;
      default:
        return `${body.status} ${balancesOf(body.balances)}`;
    }
  }

  /** All responses to a reserve must name the same hold. */
  private remember(key: string, { reservation_id: id, expires_at_ms: expiresAt }: Json): void {
    const made = `${id} until ${expiresAt}`;
    const earlier = this.made.get(key);
    if (earlier !== undefined && earlier !== made) {
      this.faults.push(`reserve ${key} was answered with ${earlier}, then with ${made}`);
    }
    this.made.set(key, made);
    this.known.set(key, { key, id, expiresAt });
    this.holds.push({ key, id, expiresAt });
    this.holds.splice(0, this.holds.length - HOLDS_KEPT);
  }
}

/**
 * Merges the attempts of each request: it took effect at most once, after the first of them was sent. If the
 * last attempt was refused, no earlier one took effect, because the refused one would then have got that
 * outcome. So only requests that never got a response are uncertain.
 */
function asRequests(attempts: readonly Attempt<LedgerRequest>[]): Attempt<LedgerRequest>[] {
  const requests = new Map<string, Attempt<LedgerRequest>>();
  for (const attempt of attempts.toSorted((a, b) => a.sentAt - b.sentAt)) {
    const earlier = requests.get(attempt.request.key);
    const isEffect = attempt.answer?.includes(' ') === true;
    if (earlier === undefined || (attempt.answer !== undefined && !isEffect)) {
      requests.set(attempt.request.key, attempt);
    } else if (isEffect) {
      requests.set(attempt.request.key, { ...attempt, sentAt: earlier.sentAt });
    }
  }
  return [...requests.values()];
}

/**
 * The same where a master crashed in between: the effect of an earlier attempt may be lost, and a later
 * attempt may repeat it. So the attempts before and after the crash count as two requests with the same key.
 */
function requestsAround(
  attempts: readonly Attempt<LedgerRequest>[],
  crash: Crash | undefined,
): { history: Attempt<LedgerRequest | Loss>[]; repeated: ReadonlySet<string> } {
  if (crash === undefined) {
    return { history: asRequests(attempts), repeated: new Set() };
  }
  const before = asRequests(attempts.filter(({ sentAt }) => sentAt <= crash.killedAt));
  const after = asRequests(attempts.filter(({ sentAt }) => sentAt > crash.killedAt));
  const earlier = new Set(before.map(({ request }) => request.key));
  const repeated = new Set(after.flatMap(({ request: { key } }) => (earlier.has(key) ? [key] : [])));
  return { history: [...before, ...momentsOf(crash), ...after], repeated };
}

/** In the model's order: the root, then the workspace. */
function balancesOf(balances: Json[]): string {
  return balances
    .map((balance) => {
      const figure = (name: string): number => Number(balance[name]?.amount ?? 0);
      const scope = /\/workspace:(.*)$/.exec(String(balance.scope_path))?.[1] ?? '';
      return {
        scope,
        text: balanceText(scope, {
          allocated: figure('allocated'),
          reserved: figure('reserved'),
          spent: figure('spent'),
        }),
      };
    })
    .sort((a, b) => a.scope.length - b.scope.length)
    .map(({ text }) => text)
    .join(' ');
}
