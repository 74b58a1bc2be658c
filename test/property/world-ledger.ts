import type { Redis } from 'ioredis';
import { replyOf } from '../../src/redis/grouped-calls.js';
import { eventLogKey } from '../../src/redis/keyspace.js';
import type { Script } from '../../src/redis/script-library.js';
import { LedgerClient } from '../support/ledger-client.js';
import { faultsOf, isCrossing, type LedgerEvent, readLedger } from '../support/ledger-state.js';
import { differences, stateDifferences } from './differences.js';
import { LedgerModel } from './model.js';
import { dueOf } from './model-records.js';
import { told } from './readings.js';

/**
 * How long the model remembers what has ended: longer than anybody asks for it, and shorter than it is
 * stored.
 */
const KEPT_MS = 60_000;
const FORGET_EVERY_MS = 5000;

/** The model's reply to a request, at the instant at which its script runs. */
export type Verdict = (model: LedgerModel, now: number) => string[];

/** One call of a run. */
export interface Judged {
  readonly verdict: Verdict;
  readonly reply: readonly string[];
}

interface Kept {
  readonly model: LedgerModel;
  readonly events: readonly LedgerEvent[];
  readonly last: string;
}

/** The replies of the calls of a run, as the callers of the scripts see them. */
export function plainReplies({ group, audits }: Script, reply: unknown): string[][] {
  const texts = audits ? (reply as string[]).slice(0, -1) : (reply as string[]);
  return group === undefined ? [texts] : texts.map(madeReply);
}

function madeReply(text: string): string[] {
  const reply = replyOf(text);
  if (reply instanceof Error) {
    throw reply;
  }
  return reply;
}

/** A partition's events after the last known one. */
export async function eventsAfter(redis: Redis, tag: string, last: string): Promise<LedgerEvent[]> {
  const entries = await redis.xrange(eventLogKey(tag), `(${last}`, '+');
  return entries.map(([id, flat]) => ({
    id,
    fields: Object.fromEntries(
      Array.from({ length: flat.length / 2 }, (_, index) => [flat[2 * index], flat[2 * index + 1]]),
    ) as Record<string, string>,
  }));
}

/** One partition of the play. Compares its stored data and events with the model. */
export class WorldLedger {
  model = new LedgerModel();
  /** The partition's log, without events that are too old to be there. */
  events: LedgerEvent[] = [];
  /** The last event that the play has seen. */
  last = '0-0';
  private forgottenAt = 0;
  private kept: Kept | undefined;

  constructor(
    readonly number: number,
    readonly client: LedgerClient,
  ) {}

  /** Compares the replies of the calls of a run, and its events, with the model. @throws Error that names each difference */
  judge(judged: readonly Judged[], fresh: readonly LedgerEvent[], now: number): void {
    this.model.begin();
    const crossings: string[] = [];
    const replies = judged.flatMap(({ verdict, reply }) => {
      const expected = verdict(this.model, now);
      crossings.push(...this.model.crossings());
      return differences('reply', reply, expected);
    });
    const faults = [
      ...replies,
      ...differences('events', fresh.filter((event) => !isCrossing(event)).map(told), this.model.events),
      ...differences('crossings', fresh.filter(isCrossing).map(told).sort(), crossings.sort()),
    ];
    if (faults.length > 0) {
      throw new Error(faults.join('\n'));
    }
  }

  /** Records new events of the log. */
  saw(fresh: readonly LedgerEvent[]): void {
    this.events.push(...fresh);
    this.last = fresh.at(-1)?.id ?? this.last;
  }

  /** Compares all stored data with the model. @throws Error that names each difference */
  async compare(redis: Redis, retentionMs: number, now: number): Promise<void> {
    const { tag, tenant, scripts } = this.client;
    const state = await readLedger(new LedgerClient(redis, tag, tenant, scripts));
    const young = this.events.filter(({ id }) => now - Number.parseInt(id, 10) <= retentionMs);
    const inLog = new Set(state.events.map(({ id }) => id));
    const faults = [
      ...stateDifferences(this.model, state, (id, status) => this.model.holds.has(id) || status === 'ACTIVE'),
      ...young.filter(({ id }) => !inLog.has(id)).map(({ id }) => `event ${id} has left the log too early`),
      // Different janitors remove a record and its event.
      ...faultsOf(state, now - retentionMs),
    ];
    if (faults.length > 0) {
      throw new Error(faults.join('\n'));
    }
  }

  /** Whether the sweeper has something to do. */
  hasDue(now: number): boolean {
    return dueOf(this.model.holds, now).length > 0;
  }

  /** Forgets what ended long ago. */
  forget(retentionMs: number, now: number): void {
    if (now - this.forgottenAt >= FORGET_EVERY_MS) {
      this.forgottenAt = now;
      this.model.forget(now, KEPT_MS);
      const first = this.events.findIndex(({ id }) => now - Number.parseInt(id, 10) <= retentionMs);
      this.events.splice(0, first === -1 ? this.events.length : first);
    }
  }

  /** Saves the current state, to which a failover will return. */
  keep(): void {
    this.kept = { model: this.model.copy(), events: [...this.events], last: this.last };
  }

  /** Discards everything since `keep`. */
  goBack(): void {
    if (this.kept !== undefined) {
      const { model, events, last } = this.kept;
      Object.assign(this, { model, events: [...events], last, kept: undefined });
    }
  }
}
