import { Redis } from 'ioredis';
import { setTimeout as delay } from 'node:timers/promises';
import { startService } from './built-service.js';
import { eventually } from './eventually.js';
import { ADMIN_API_KEY, HoldfastClient, WEBHOOK_SECRET_ENCRYPTION_KEY } from './holdfast.js';
import type { RedisServer } from './redis-server.js';
import {
  keepMasters,
  letReplicasTakeOver,
  startCluster,
  withServer,
  type ClusterSetup,
} from './redis-topologies.js';
import type { Settings } from './settings.js';

const TAKE_OVER_MS = 30_000;

type Service = Awaited<ReturnType<typeof startService>>;

/** A master that was killed. All instants are of the monotonic clock. */
export interface Crash {
  /** Everything acknowledged before this instant had reached the replica. */
  readonly keptUntil: number;
  readonly killedAt: number;
  /** When its replica had taken over. Everything acknowledged since then was stored there. */
  readonly replacedAt: number;
  /** Whether the slot belonged to the master. */
  readonly hadSlot: (slot: number) => boolean;
}

async function isMaster(server: RedisServer): Promise<boolean> {
  return withServer(server, async (redis) => (await redis.info('replication')).includes('role:master'));
}

/** The slots of a master, as pairs of first and last. */
async function slotsOf(redis: Redis, port: number): Promise<[number, number][]> {
  const ranges = (await redis.call('CLUSTER', 'SLOTS')) as [number, number, [string, number]][];
  return ranges.filter(([, , [, at]]) => at === port).map(([first, last]) => [first, last]);
}

/**
 * A cluster of three masters with a replica each, and instances of the built service in front of it. Any of
 * them can be killed.
 */
export class ClusterSite {
  private constructor(
    readonly setup: ClusterSetup,
    private readonly env: Settings,
    private readonly services: Service[],
  ) {}

  /** The service must have been built. */
  static async open(instances: number, settings: Settings = {}): Promise<ClusterSite> {
    const setup = await startCluster();
    const env = {
      REDIS_CLUSTER_NODES: setup.addresses,
      ADMIN_API_KEY,
      WEBHOOK_SECRET_ENCRYPTION_KEY,
      ...settings,
    };
    const services = await Promise.all(Array.from({ length: instances }, () => startService(env)));
    return new ClusterSite(setup, env, services);
  }

  /** Clients of the instances that are running or restarting. */
  readonly clients = (): readonly HoldfastClient[] => this.services.map(({ url }) => new HoldfastClient(url));

  /** Kills an instance with SIGKILL, whatever it is doing, and starts a new one in its place. */
  async kill(index: number): Promise<void> {
    const victim = this.services[index] as Service;
    victim.child.kill('SIGKILL');
    await victim.ended;
    this.services[index] = await startService(this.env);
  }

  /** Promotes every replica. Master and replica coordinate, so no acknowledged write is lost. */
  async failOver(): Promise<void> {
    const { replicas } = await this.roles();
    for (const replica of replicas) {
      await withServer(replica, (redis) => redis.call('CLUSTER', 'FAILOVER'));
      await eventually('the replica is a master', () => isMaster(replica));
    }
  }

  /**
   * Kills a master with SIGKILL. Its replica was cut off from it `cutOffMs` earlier, so it really lacks the
   * last writes, and takes over nevertheless. Then the former master returns, empty, as a replica.
   * @param choice which master: any integer from 0
   */
  async crash(choice: number, cutOffMs: number): Promise<Crash> {
    const { masters } = await this.roles();
    const victim = masters[choice % masters.length] as RedisServer;
    await letReplicasTakeOver(this.setup);
    const before = await withServer(victim, async (redis) => {
      const slots = await slotsOf(redis, victim.port);
      const keptUntil = await eventually('the replica has everything', async () => {
        const now = performance.now();
        // Any key of this master will do.
        await redis.set(await ownKey(redis, slots), '1');
        return (await redis.wait(1, 1000)) === 1 ? now : undefined;
      });
      if (cutOffMs > 0) {
        await redis.call('ACL', 'SETUSER', 'default', '-psync');
        await redis.call('CLIENT', 'KILL', 'TYPE', 'replica');
        await delay(cutOffMs);
      }
      return { slots, keptUntil };
    });
    const killedAt = performance.now();
    await victim.kill();
    await eventually(
      'its replica has taken over',
      async () => this.isServed(before.slots, victim),
      TAKE_OVER_MS,
    );
    const replacedAt = performance.now();
    await victim.restart();
    await this.whole();
    await keepMasters(this.setup);
    const hadSlot = (slot: number): boolean =>
      before.slots.some(([first, last]) => first <= slot && slot <= last);
    return { keptUntil: before.keptUntil, killedAt, replacedAt, hadSlot };
  }

  /** Waits until all instances are ready and every master has a replica that is in sync. */
  async ready(): Promise<void> {
    await this.whole();
    await eventually(
      'all are ready',
      async () => {
        const answers = await Promise.all(this.services.map(({ url }) => fetch(`${url}/health/ready`)));
        return answers.every(({ status }) => status === 200);
      },
      TAKE_OVER_MS,
    );
  }

  async close(): Promise<void> {
    for (const { child, ended } of this.services) {
      child.kill('SIGTERM');
      await ended;
    }
  }

  /** Any node, to ask about the cluster. */
  anyNode(): RedisServer {
    return this.setup.masters[0] as RedisServer;
  }

  private get nodes(): readonly RedisServer[] {
    return [...this.setup.masters, ...this.setup.replicas];
  }

  private async roles(): Promise<{ masters: RedisServer[]; replicas: RedisServer[] }> {
    const roles = await Promise.all(this.nodes.map(isMaster));
    return {
      masters: this.nodes.filter((_, index) => roles[index] === true),
      replicas: this.nodes.filter((_, index) => roles[index] === false),
    };
  }

  /** Whether a node other than the victim serves the slots. */
  private async isServed(slots: readonly [number, number][], victim: RedisServer): Promise<boolean> {
    for (const node of this.nodes.filter((one) => one !== victim)) {
      const owns = await withServer(node, async (redis) => {
        const [, , [, port]] = (
          (await redis.call('CLUSTER', 'SLOTS')) as [number, number, [string, number]][]
        ).find(([first]) => first === slots[0]?.[0]) ?? [0, 0, ['', 0]];
        return port === node.port;
      });
      if (owns) {
        return true;
      }
    }
    return false;
  }

  private async whole(): Promise<void> {
    await eventually(
      'each master has a replica in sync',
      async () => {
        const replies = await Promise.all(
          this.nodes.map((node) => withServer(node, (redis) => redis.info('replication'))),
        );
        const count = (text: string): number => replies.filter((reply) => reply.includes(text)).length;
        return count('role:master') === 3 && count('master_link_status:up') === 3;
      },
      TAKE_OVER_MS,
    );
  }
}

/** A key that belongs to one of the slots. */
async function ownKey(redis: Redis, slots: readonly [number, number][]): Promise<string> {
  for (let number = 0; ; number += 1) {
    const key = `in-step-${number}`;
    const slot = Number(await redis.call('CLUSTER', 'KEYSLOT', key));
    if (slots.some(([first, last]) => first <= slot && slot <= last)) {
      return key;
    }
  }
}
