import { Inject, Injectable } from '@nestjs/common';
import type { Cluster, Redis } from 'ioredis';
import { CONFIG, type HoldfastConfig } from '../../config/index.js';
import { type ErrorCode, randomBase62, Refusal } from '../../ledger/index.js';
import {
  budgetKey,
  RedisService,
  type ScriptReply,
  StoreUnavailable,
  tagOfTenant,
  waiterQueueKey,
  waitersKey,
  wakeChannel,
} from '../../redis/index.js';
import { LOGGER, type Logger, MetricsRegistry, ShutdownState } from '../../telemetry/index.js';
import { FOR_LACK_OF_BUDGET } from '../funds-forecast.js';
import { type Signal, Waiter, type WaitOutcome, type Wanted } from './waiter.js';
import { RESERVATION_METRICS } from '../reservations.metrics.js';

type WaitingReply = Extract<ScriptReply<'reserve'>, { status: 'WAITING' }>;

/** How long a place counts without being renewed, and how often it is renewed. A dead instance's waiters hold up others this long. */
const LEASE_MS = 3000;
const RENEW_MS = 1000;
/** How much later than the reply of a renewal a message about the same turn may arrive before it counts as lost. */
const MESSAGE_MS = 100;
/** BOUND of lua/ledger/renew_waiters.lua. */
const RENEWED_AT_ONCE = 100;
const MESSAGE = /^(\S+) (\S+) (tenant:([^/]+).*)$/;

function isWaiting(reply: { readonly status: string }): reply is WaitingReply {
  return reply.status === 'WAITING';
}

/** Whether the script has given up the place itself. */
function hasLeft(reply: { readonly status: string; readonly answer?: string }): boolean {
  return reply.answer === 'fresh' && reply.status.startsWith('ALLOW');
}

function outcomeOf({ status }: { readonly status: string }, signal: Signal): WaitOutcome {
  if (status.startsWith('ALLOW')) {
    return 'granted';
  }
  if (!FOR_LACK_OF_BUDGET.has(status as ErrorCode)) {
    return 'refused';
  }
  return signal === 'draining' ? 'drained' : 'timed_out';
}

/** @throws Refusal if the caller may no longer act; StoreUnavailable */
async function readmitted({ barred, wanted }: Waiter): Promise<void> {
  if (barred !== undefined) {
    throw barred;
  }
  await wanted.readmit();
}

/**
 * Lets reserves wait for funds. The order is kept in Redis (lua/ledger/lib/waiters.lua), so all instances share it; this knows the requests behind
 * the places of this instance. A script that frees funds publishes the place whose turn it is to its instance, which then runs that reserve
 * again, as any other. Nothing waits in Redis or in a group of calls meanwhile.
 *
 * At its turn, and at each renewal, the caller of a reserve is judged as that of a new request would be.
 *
 * Messages may be lost. So once a second each instance renews the places of its waiters, in a run that also finds those whose turn it is.
 * It also does so as soon as it has subscribed again.
 */
@Injectable()
export class FundsWaiters {
  private readonly instance = randomBase62(12);
  private readonly waiters = new Map<string, Waiter>();
  private readonly counts = this.metrics.of(RESERVATION_METRICS);
  private subscriber: Redis | Cluster | undefined;
  private renewal: NodeJS.Timeout | undefined;
  private made = 0;
  private isDraining = false;

  constructor(
    private readonly redis: RedisService,
    private readonly metrics: MetricsRegistry,
    shutdown: ShutdownState,
    @Inject(CONFIG) private readonly config: HoldfastConfig,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {
    this.counts.waiters.readFrom(() => this.placed().length);
    shutdown.onShutdown(() => {
      this.isDraining = true;
      this.waiters.forEach((waiter) => waiter.end('draining'));
    });
  }

  /**
   * Runs a reserve, and while it lacks funds and has time, again whenever its turn has come.
   * @param run runs the reserve with the text that lua/ledger/lib/waiters.lua takes
   * @returns what the last run said
   * @throws what a run throws; Refusal INVALID_REQUEST if the client has disconnected, UNAUTHORIZED or FORBIDDEN if the caller may no longer act
   */
  async untilDecided<Reply extends { readonly status: string }>(
    wanted: Wanted,
    run: (waiter: string) => Promise<Reply>,
  ): Promise<Exclude<Reply, { status: 'WAITING' }>> {
    this.listen();
    this.made += 1;
    const waiter = new Waiter(`${this.instance}.${this.made}.${wanted.amount}`, wanted);
    if (this.isDraining) {
      waiter.end('draining');
    }
    // Before the first run, because its turn may come before the reply does.
    this.waiters.set(waiter.place, waiter);
    try {
      const reply = await run(this.textOf(waiter));
      if (isWaiting(reply)) {
        this.scheduleRenewal();
        return await this.wait(waiter, reply, run);
      }
      if (FOR_LACK_OF_BUDGET.has(reply.status as ErrorCode)) {
        this.counts.waits.inc({ outcome: this.isDraining ? 'drained' : 'not_queued' });
      }
      return reply as Exclude<Reply, { status: 'WAITING' }>;
    } finally {
      this.waiters.delete(waiter.place);
      waiter.stop();
    }
  }

  private async wait<Reply extends { readonly status: string }>(
    waiter: Waiter,
    first: WaitingReply,
    run: (waiter: string) => Promise<Reply>,
  ): Promise<Exclude<Reply, { status: 'WAITING' }>> {
    const began = performance.now();
    let outcome: WaitOutcome = 'failed';
    let mustLeave = true;
    try {
      for (let reply: Reply | WaitingReply | undefined = first; ;) {
        if (reply !== undefined && isWaiting(reply)) {
          ({ number: waiter.number, scope: waiter.scope } = reply);
        } else if (reply !== undefined) {
          mustLeave = !hasLeft(reply);
          return reply as Exclude<Reply, { status: 'WAITING' }>;
        }
        const signal = await waiter.nextSignal();
        if (signal === 'gone') {
          outcome = 'client_gone';
          throw new Refusal('INVALID_REQUEST', 'the client closed the connection while its reserve waited');
        }
        reply = await this.runAgain(waiter, run, signal !== 'turn');
        outcome = reply === undefined || isWaiting(reply) ? outcome : outcomeOf(reply, signal);
      }
    } catch (error) {
      outcome = outcome === 'failed' && error instanceof Refusal ? 'refused' : outcome;
      throw error;
    } finally {
      const { tenantId, unit, idempotencyKey, patience } = waiter.wanted;
      patience.waitedMs = performance.now() - began;
      this.counts.waits.inc({ outcome });
      this.counts.waitSeconds.observe(patience.waitedMs / 1000);
      if (mustLeave) {
        void this.leave(tenantId, { place: waiter.place, unit, scope: waiter.scope });
      }
      if (outcome === 'granted') {
        this.wakeRetries(tenantId, idempotencyKey);
      }
    }
  }

  /** @returns undefined if there was no answer and there is time for another try, which is safe with the same idempotency key */
  private async runAgain<Reply>(
    waiter: Waiter,
    run: (waiter: string) => Promise<Reply>,
    isLast: boolean,
  ): Promise<Reply | undefined> {
    waiter.isRunning = true;
    waiter.isInDoubt = false;
    try {
      await readmitted(waiter);
      return await run(this.textOf(waiter));
    } catch (error) {
      if (isLast || !(error instanceof StoreUnavailable)) {
        throw error;
      }
      waiter.isInDoubt = true;
      return undefined;
    } finally {
      waiter.isRunning = false;
    }
  }

  private textOf({ leftMs, place, number, scope }: Waiter): string {
    return `${this.config.waitersPerTenant} ${leftMs} ${place} ${number} ${scope}`;
  }

  private placed(): Waiter[] {
    return [...this.waiters.values()].filter(({ isPlaced }) => isPlaced);
  }

  private listen(): void {
    if (this.subscriber !== undefined) {
      return;
    }
    const subscriber = this.redis.subscriber();
    this.subscriber = subscriber;
    subscriber.on('message', (_channel: string, message: string) => this.wake(message));
    // A new connection has no subscriptions.
    subscriber.on('ready', () => void this.subscribe(subscriber));
    void this.subscribe(subscriber);
  }

  /** Never rejects. If it fails because the connection was lost, the next connection subscribes. */
  private async subscribe(subscriber: Redis | Cluster): Promise<void> {
    try {
      await subscriber.subscribe(wakeChannel(this.instance));
    } catch (error) {
      this.logger.warn(
        { err: error },
        'cannot subscribe to freed funds; reserves that wait for them find them within a second',
      );
    }
    await this.renew();
  }

  private wake(message: string): void {
    const [, place = '', unit = '', scope = '', tenantId = ''] = MESSAGE.exec(message) ?? [];
    const waiter = this.waiters.get(place);
    if (waiter === undefined) {
      // Its own attempt to leave has failed, or is under way.
      void this.leave(tenantId, { place, unit, scope });
      return;
    }
    this.counts.wakeUps.inc({ by: 'freed' });
    waiter.wake();
  }

  /** Retries with the same key have an outcome now, however little remains. Those at other instances learn it within a second. */
  private wakeRetries(tenantId: string, idempotencyKey: string): void {
    for (const waiter of this.waiters.values()) {
      if (waiter.wanted.tenantId === tenantId && waiter.wanted.idempotencyKey === idempotencyKey) {
        waiter.wake();
      }
    }
  }

  private tagOf(tenantId: string): string {
    return tagOfTenant(tenantId, this.redis.partitions);
  }

  /** Never rejects: if it fails, the place lapses. */
  private async leave(
    tenantId: string,
    { place, unit, scope }: { place: string; unit: string; scope: string },
  ): Promise<void> {
    const tag = this.tagOf(tenantId);
    const keys = {
      budget: budgetKey(tag, unit, scope),
      waiterQueue: waiterQueueKey(tag, unit, scope),
      waiters: waitersKey(tag, tenantId),
    };
    await this.redis.scripts.call('leave_waiters', keys, { place }).catch((error: unknown) => {
      this.report('leave', error);
    });
  }

  private report(call: 'renew' | 'leave', error: unknown): void {
    this.counts.placeFailures.inc({ call });
    this.logger.warn({ err: error, call }, 'the place of a waiting reserve could not be updated');
  }

  private scheduleRenewal(): void {
    if (this.renewal === undefined && this.waiters.size > 0) {
      this.renewal = setTimeout(() => {
        void this.renew().finally(() => {
          this.renewal = undefined;
          this.scheduleRenewal();
        });
      }, RENEW_MS).unref();
    }
  }

  /** Never rejects: what fails is tried again a second later. All calls are sent before a waiter can be run again. */
  private async renew(): Promise<void> {
    const byTenant = new Map<string, Waiter[]>();
    for (const waiter of this.placed()) {
      if (!waiter.isRunning) {
        const { tenantId } = waiter.wanted;
        byTenant.set(tenantId, [...(byTenant.get(tenantId) ?? []), waiter]);
      }
    }
    const calls: Promise<void>[] = [];
    for (const waiter of [...byTenant.values()].flat()) {
      // Whoever may no longer act must not hold up others. While Redis is away, nobody is judged.
      void readmitted(waiter).catch((error: unknown) => {
        if (error instanceof Refusal) {
          waiter.bar(error);
        }
      });
    }
    for (const [tenantId, waiters] of byTenant) {
      for (let first = 0; first < waiters.length; first += RENEWED_AT_ONCE) {
        const renewed = this.renewPart(tenantId, waiters.slice(first, first + RENEWED_AT_ONCE));
        calls.push(
          renewed.catch((error: unknown) => {
            this.report('renew', error);
          }),
        );
      }
    }
    await Promise.all(calls);
  }

  private async renewPart(tenantId: string, waiters: readonly Waiter[]): Promise<void> {
    // A message that comes before the reply counts, too: its waiter may be running by then.
    const asked = waiters.map((waiter) => ({ waiter, wakeUps: waiter.wakeUps }));
    const { places } = await this.redis.scripts.call(
      'renew_waiters',
      { waiters: waitersKey(this.tagOf(tenantId), tenantId) },
      {
        tenantId,
        leaseMs: LEASE_MS,
        rest: waiters.flatMap(({ place, number, scope, wanted }) => [
          place,
          number,
          wanted.unit,
          scope,
          wanted.idempotencyKey,
        ]),
      },
    );
    const found = asked.filter(({ waiter }) => waiter.isInDoubt || places.includes(waiter.place));
    for (const { waiter, wakeUps } of found) {
      setTimeout(() => {
        if (waiter.wakeUps === wakeUps && this.waiters.has(waiter.place)) {
          this.counts.wakeUps.inc({ by: 'renewal' });
          waiter.wake();
        }
      }, MESSAGE_MS).unref();
    }
  }
}
