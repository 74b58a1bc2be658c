import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { type RedisServer, startRedis } from '../support/redis-server.js';
import type { Command } from './world-connection.js';
import { type LibraryChange, loadScripts, pass } from './world-scripts.js';

interface Node {
  readonly server: RedisServer;
  readonly redis: Redis;
}

type Run = (...args: Command['args']) => Promise<unknown>;

/** Fills a replica without a delay. */
const REPLICATION = ['--repl-diskless-sync', 'yes', '--repl-diskless-sync-delay', '0'];
const IN_STEP_MS = 5;

/** A master and its replica, which swap roles at a failover. */
export class WorldStore {
  /** Whether the replica is cut off, so that a failover will lose what happens now. */
  isCut = false;
  isFull = false;
  private clockMs = 0;

  private constructor(
    private master: Node,
    private replica: Node,
  ) {}

  static async start(change?: LibraryChange): Promise<WorldStore> {
    const [master, replica] = await Promise.all([startNode(), startNode()] as const);
    const store = new WorldStore(master, replica);
    try {
      await loadScripts(master.redis, change);
      await store.follow();
      return store;
    } catch (error) {
      await store.stop();
      throw error;
    }
  }

  /** For the play's own reads and preparations. */
  get redis(): Redis {
    return this.master.redis;
  }

  /**
   * Runs a command at an instant of the play. `read` is sent together with it, so that nothing happens in
   * between.
   */
  async run<T>(
    { name, args }: Command,
    nowMs: number,
    read: (redis: Redis) => Promise<T>,
  ): Promise<{ error?: Error; reply?: unknown; seen: T }> {
    const { redis } = this.master;
    const passed = this.pass(nowMs);
    const sent = (redis as unknown as Record<string, Run>)[name]?.call(redis, ...args).then(
      (reply) => ({ reply: name === 'smembers' ? inOneOrder(reply) : reply }),
      (error: Error) => ({ error }),
    );
    const seen = read(redis);
    await passed;
    return { ...(await sent), seen: await seen };
  }

  async pass(nowMs: number): Promise<void> {
    if (nowMs > this.clockMs) {
      this.clockMs = nowMs;
      await pass(this.master.redis, nowMs);
    }
  }

  async fill(isFull: boolean): Promise<void> {
    this.isFull = isFull;
    await this.master.redis.config('SET', 'maxmemory', isFull ? 1 : 0);
  }

  /** Cuts the replica off from now on. */
  async cut(): Promise<void> {
    await this.inStep();
    await this.replica.redis.replicaof('NO', 'ONE');
    this.isCut = true;
  }

  /**
   * The replica takes over in its state at the cut. The former master then follows it and discards the rest.
   */
  async failOver(nowMs: number): Promise<void> {
    await this.fill(false);
    [this.master, this.replica] = [this.replica, this.master];
    this.isCut = false;
    this.clockMs = 0;
    await this.pass(nowMs);
    await this.follow();
  }

  async stop(): Promise<void> {
    for (const { redis, server } of [this.master, this.replica]) {
      redis.disconnect();
      await server.stop();
    }
  }

  private async follow(): Promise<void> {
    const { host, port } = this.master.server;
    await this.replica.redis.replicaof(host, port);
  }

  /** Waits until the replica has everything. The duration does not affect the play. */
  private async inStep(): Promise<void> {
    while (!/^master_link_status:up/m.test(await this.replica.redis.info('replication'))) {
      await delay(IN_STEP_MS);
    }
    await this.master.redis.wait(1, 0);
  }
}

/** Each server process has the members of a set in an order of its own. */
const inOneOrder = (members: unknown): string[] => (members as string[]).sort();

async function startNode(): Promise<Node> {
  const server = await startRedis({ args: REPLICATION });
  return { server, redis: new Redis(server.url) };
}
