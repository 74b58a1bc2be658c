import type { Connection } from './world-connection.js';
import type { World } from './world.js';

/** Faults per thousand steps. */
const FAULTS = 12;
const LONGEST_OUTAGE = 80;

/** The faults of a play, and when they end. */
export class WorldFaults {
  /** Steps until each of these ends. */
  private readonly left = new Map<'full' | 'failover' | `instance ${number}`, number>();

  constructor(private readonly world: World) {}

  /** Before a step, may start or end a fault. */
  async next(): Promise<void> {
    for (const [what, steps] of this.left) {
      if (steps > 1) {
        this.left.set(what, steps - 1);
      } else {
        await this.over(what);
      }
    }
    if (this.world.time.random() * 1000 < FAULTS) {
      await this.begin();
    }
  }

  /** Ends all faults. */
  async end(): Promise<void> {
    for (const what of [...this.left.keys()]) {
      await this.over(what);
    }
  }

  private async begin(): Promise<void> {
    const { world } = this;
    const choice = world.time.random();
    if (choice < 0.3) {
      this.kill(Math.floor(world.time.random() * world.services.length));
    } else if (choice < 0.5) {
      const connection = world.one(world.connections) as Connection;
      world.note(`${connection.actor.name} loses its connection`, 'lost replies');
      connection.break();
    } else if (choice < 0.75) {
      this.timeOut();
    } else if (choice < 0.88 && !world.store.isFull) {
      await world.store.fill(true);
      world.note('Redis is full', 'full Redis');
      this.lasts('full');
    } else if (!world.store.isCut) {
      await world.store.cut();
      world.ledgers.forEach((ledger) => ledger.keep());
      world.note('the replica is cut off', 'cut');
      this.lasts('failover');
    }
  }

  private async over(what: 'full' | 'failover' | `instance ${number}`): Promise<void> {
    const { world } = this;
    this.left.delete(what);
    if (what === 'full') {
      await world.store.fill(false);
      world.note('Redis has room');
    } else if (what === 'failover') {
      this.left.delete('full');
      world.time.nowMs += 1 + Math.floor(world.time.random() * 2000);
      await world.store.failOver(world.time.nowMs);
      world.goBack();
      world.note('the replica takes over', 'failover');
    } else {
      await world.startInstance(Number(what.split(' ')[1]));
      world.note(`${what} starts`, 'start');
    }
  }

  /** What the process has already sent may still arrive. */
  private kill(number: number): void {
    const { world } = this;
    const service = world.services[number];
    if (service === undefined) {
      return;
    }
    const { connection, actor } = service;
    world.note(`${actor.name} is killed`, 'kill');
    world.strays.push(...connection.waiting.splice(0, Math.floor(world.time.random() * 4)));
    world.services[number] = undefined;
    world.time.end(actor);
    this.lasts(`instance ${number}`);
  }

  /** A caller gives up, and Redis runs its command later. */
  private timeOut(): void {
    const { world } = this;
    const sending = world.connections.filter(({ waiting }) => waiting.length > 0);
    const connection = world.one(sending);
    const command = connection?.timeOut();
    if (connection !== undefined && command !== undefined) {
      world.note(`${connection.actor.name} waits no longer for ${command.name}`, 'late command');
      world.strays.push(command);
    }
  }

  private lasts(what: 'full' | 'failover' | `instance ${number}`): void {
    this.left.set(what, 1 + Math.floor(this.world.time.random() * LONGEST_OUTAGE));
  }
}
