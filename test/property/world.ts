import { createHash } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import { randomFrom } from '../../scripts/seed.mjs';
import { tagOfPartition } from '../../src/redis/keyspace.js';
import type { Script } from '../../src/redis/script-library.js';
import type { LedgerEvent } from '../support/ledger-state.js';
import { WorldClient } from './world-clients.js';
import type { Command, Connection } from './world-connection.js';
import { type Answer, Endpoint } from './world-endpoint.js';
import { WorldFaults } from './world-faults.js';
import { judgeService } from './world-judge.js';
import { eventsAfter, plainReplies, type WorldLedger } from './world-ledger.js';
import { type LibraryChange, SCRIPTS } from './world-scripts.js';
import { RETENTION_MS, WorldService } from './world-service.js';
import { makeLedgers } from './world-start.js';
import { WorldStore } from './world-store.js';
import { Actor, WorldTime } from './world-time.js';

const CLIENTS = 3;
const INSTANCES = 2;
/** All stored data is compared once per this many steps. */
const COMPARED_EVERY = 50;
/** After this time, faults and requests stop until everything is delivered. */
const CALM_AFTER_MS = 60_000;
const MOST_CALM_STEPS = 4000;
const LONGEST_WAIT_MS = 1000;
const LONGEST_PAUSE_MS = 400;
const SHOWN_STEPS = 40;
/** Runs in which several calls of one client came together. */
const SEVERAL = 'run of several calls';
const TAG_LENGTH = tagOfPartition(0).length;

export interface WorldOptions {
  readonly seed: number;
  /** Breaks a script. */
  readonly change?: LibraryChange;
}

/**
 * The service, its clients, an endpoint and Redis in one process. It runs one command at a time, in an order
 * that the seed determines.
 */
export class World {
  readonly time: WorldTime;
  readonly endpoint = new Endpoint();
  readonly faults: WorldFaults;
  services: (WorldService | undefined)[] = [];
  clients: WorldClient[] = [];
  /** Commands whose sender is gone, but which Redis may still run. */
  strays: Command[] = [];
  /** How often each thing happened. */
  readonly counts = new Map<string, number>();
  /** Equal for plays with the same course. */
  readonly digest = createHash('sha256');
  private readonly recent: string[] = [];
  private step = 0;
  private isCalm = false;
  private calmAt: number;
  private failure: unknown;
  ledgers: WorldLedger[] = [];

  private constructor(
    private readonly options: WorldOptions,
    readonly store: WorldStore,
  ) {
    this.time = new WorldTime(randomFrom(options.seed));
    this.faults = new WorldFaults(this);
    this.calmAt = this.time.nowMs + CALM_AFTER_MS;
  }

  static async start(options: WorldOptions): Promise<World> {
    const store = await WorldStore.start(options.change);
    const world = new World(options, store);
    try {
      await world.begin();
      return world;
    } catch (error) {
      await world.stop();
      throw error;
    }
  }

  async stop(): Promise<void> {
    this.time.uninstall();
    await this.store.stop();
  }

  /** @throws Error after the first step at which something differs from the model */
  async run(steps: number): Promise<void> {
    try {
      for (let end = this.step + steps; this.step < end;) {
        await this.next();
        if (this.time.nowMs >= this.calmAt) {
          await this.calm();
        }
      }
      await this.calm();
    } catch (error) {
      const { message, stack } = error as Error;
      throw new Error(
        `seed ${this.options.seed}, step ${this.step}: ${message}\nThe last steps:\n${this.recent.join('\n')}`,
        { cause: stack },
      );
    }
  }

  note(what: string, counted?: string): void {
    const line = `${this.step} ${this.time.nowMs} ${what}`;
    this.digest.update(line);
    this.recent.push(line);
    this.recent.splice(0, this.recent.length - SHOWN_STEPS);
    if (counted !== undefined) {
      this.counts.set(counted, (this.counts.get(counted) ?? 0) + 1);
    }
  }

  async startInstance(number: number): Promise<void> {
    this.services[number] = await WorldService.start(`instance ${number}`, this.time, this.endpoint);
  }

  get connections(): Connection[] {
    return [
      ...this.services.flatMap((service) => service?.connection ?? []),
      ...this.clients.map(({ connection }) => connection),
    ];
  }

  one<Item>(items: readonly Item[]): Item | undefined {
    return items[Math.floor(this.time.random() * items.length)];
  }

  /** After a failover: what was emitted since the cut is lost, and every connection is broken. */
  goBack(): void {
    this.strays = [];
    this.ledgers.forEach((ledger) => ledger.goBack());
    this.endpoint.lostTail(this.time.nowMs);
    this.connections.forEach((connection) => connection.break());
  }

  private async begin(): Promise<void> {
    this.time.install();
    this.ledgers = await this.time.as(new Actor('the play'), () => makeLedgers(this.store, this.endpoint));
    for (const ledger of this.ledgers) {
      ledger.saw(await this.read(this.store.redis, ledger));
    }
    for (let number = 0; number < INSTANCES; number += 1) {
      await this.startInstance(number);
    }
    this.clients = Array.from(
      { length: CLIENTS },
      (_, number) =>
        new WorldClient(`client ${number}`, this.ledgers, this.time, (error) => (this.failure ??= error)),
    );
  }

  private async next(): Promise<void> {
    this.step += 1;
    const { random } = this.time;
    if (!this.isCalm) {
      await this.faults.next();
    }
    await this.act(random());
    this.ledgers.forEach((ledger) => ledger.forget(RETENTION_MS, this.time.nowMs));
    // Until everybody waits for Redis, for the endpoint, or for a timer.
    await turn();
    if (this.failure !== undefined) {
      throw this.failure as Error;
    }
    if (this.step % COMPARED_EVERY === 0) {
      await this.compare();
    }
  }

  private async act(choice: number): Promise<void> {
    const idle = this.isCalm ? [] : this.clients.filter(({ isBusy }) => !isBusy);
    const answered = this.connections.filter(({ hasReply }) => hasReply);
    const sending = this.connections.filter(({ waiting }) => waiting.length > 0);
    if (choice < 0.03) {
      return this.wait(1 + Math.floor(this.time.random() * LONGEST_PAUSE_MS));
    }
    if (choice < 0.037) {
      return this.one(this.services)?.maintain(this.time);
    }
    if (choice < 0.2 && idle.length > 0) {
      return this.note((this.one(idle) as WorldClient).begin(), 'request');
    }
    if (choice < 0.3 && this.endpoint.posts.length > 0) {
      return this.answerPost();
    }
    if (choice < 0.4 && answered.length > 0) {
      return this.deliver(this.one(answered) as Connection);
    }
    if (choice < 0.46 && this.strays.length > 0) {
      const [stray] = this.strays.splice(0, 1);
      return this.execute(stray as Command, undefined);
    }
    if (sending.length > 0) {
      const connection = this.one(sending) as Connection;
      return this.execute(connection.waiting.shift() as Command, connection);
    }
    if (answered.length > 0) {
      return this.deliver(this.one(answered) as Connection);
    }
    if (this.endpoint.posts.length > 0 && this.time.random() < 0.7) {
      return this.answerPost();
    }
    return this.wait(Math.max(1, Math.min(this.time.nextAt - this.time.nowMs, LONGEST_WAIT_MS)));
  }

  private async wait(ms: number): Promise<void> {
    this.time.nowMs += ms;
    await this.store.pass(this.time.nowMs);
    this.note(`${ms} ms pass`);
    this.time.wake();
  }

  private answerPost(): void {
    const { random } = this.time;
    const answer: Answer = this.isCalm || random() < 0.7 ? 'accepted' : random() < 0.7 ? 'refused' : 'lost';
    const post = this.one(this.endpoint.posts) as Endpoint['posts'][number];
    this.note(`${post.subscription} answers to ${post.eventId}: ${answer}`, `post ${answer}`);
    this.endpoint.answer(post, answer);
  }

  private deliver(connection: Connection): void {
    this.note(`${connection.actor.name} gets a late reply`, 'late reply');
    connection.deliver();
  }

  /** Redis runs a command, whose sender may be gone. */
  private async execute(command: Command, connection: Connection | undefined): Promise<void> {
    const { nowMs } = this.time;
    const script = command.name === 'fcall' ? SCRIPTS.get(String(command.args[0])) : undefined;
    const ledger = script === undefined ? undefined : this.ledgerOf(command);
    const sender = connection?.actor.name ?? 'a sender that is gone';
    const what = script?.name ?? command.name;
    const { error, reply, seen } = await this.store.run(command, nowMs, async (redis) =>
      ledger === undefined ? [] : this.read(redis, ledger),
    );
    this.note(
      `${sender}: ${what} ${command.args.slice(1, 20).join(' ').slice(0, 300)} -> ${error?.message ?? String(reply).slice(0, 200)}`,
      connection === undefined ? 'stray command' : what,
    );
    if (error !== undefined) {
      this.mayFail(error, script);
    } else if (ledger !== undefined && script !== undefined) {
      ledger.saw(seen);
      const replies = plainReplies(script, reply);
      if (replies.length > 1) {
        this.counts.set(SEVERAL, (this.counts.get(SEVERAL) ?? 0) + 1);
      }
      const keys = command.args.slice(2, 2 + Number(command.args[1])).map(String);
      const each = keys.length / (script.group === undefined ? 1 : Number(command.args.at(-1)));
      const keysOfCalls = replies.map((_, index) => keys.slice(index * each, (index + 1) * each));
      (command.judge ?? judgeService(script, command.args))(ledger, replies, seen, nowMs, keysOfCalls);
    }
    connection?.reply(command, error, reply);
    // Usually the sender has the reply before anything else happens.
    if (this.time.random() < 0.9) {
      while (connection?.hasReply === true) {
        connection.deliver();
      }
    }
  }

  /** @throws Error unless Redis is full and the script may not run then */
  private mayFail(error: Error, script: Script | undefined): void {
    const isRefused = this.store.isFull && error.message.startsWith('OOM');
    if (!isRefused || script?.flags.includes('allow-oom') === true) {
      throw error;
    }
    this.note('Redis is full', 'refused because Redis is full');
  }

  private ledgerOf({ args }: Command): WorldLedger | undefined {
    const tag = String(args[2]).slice(0, TAG_LENGTH);
    return this.ledgers.find(({ client }) => client.tag === tag);
  }

  private async read(redis: WorldStore['redis'], ledger: WorldLedger): Promise<LedgerEvent[]> {
    const events = await eventsAfter(redis, ledger.client.tag, ledger.last);
    events.forEach((event) => this.endpoint.told(ledger.number, event));
    return events;
  }

  private async compare(): Promise<void> {
    const { nowMs } = this.time;
    for (const ledger of this.ledgers) {
      await ledger.compare(this.store.redis, RETENTION_MS, nowMs);
    }
    if (!this.isCalm) {
      this.endpoint.forget(nowMs - 2 * RETENTION_MS);
    }
  }

  /** Stops faults and requests until every event is delivered. */
  private async calm(): Promise<void> {
    await this.faults.end();
    this.isCalm = true;
    // Events may be removed from the log while they wait.
    const told = this.ledgers.map(({ number, events }) => ({ number, events: [...events] }));
    let missing: string[];
    const first = this.step;
    do {
      await this.next();
      missing = told.flatMap(({ number, events }) => this.endpoint.missing(number, events));
      if (this.step - first > MOST_CALM_STEPS) {
        throw new Error(`not delivered after ${MOST_CALM_STEPS} calm steps:\n${missing.join('\n')}`);
      }
    } while (
      missing.length > 0 ||
      this.clients.some(({ isBusy }) => isBusy) ||
      this.ledgers.some((ledger) => ledger.hasDue(this.time.nowMs))
    );
    await this.compare();
    this.note('everything is delivered', 'calm');
    this.isCalm = false;
    this.calmAt = this.time.nowMs + CALM_AFTER_MS;
  }
}
