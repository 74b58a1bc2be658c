// One service under load over HTTP, with the CPU seconds that each phase takes of it, of its Redis and of everything else.
import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import { countCpu, otherCpuSeconds } from './cpu.mjs';
import { startHttpLoad } from './load.mjs';
import { say } from './report.mjs';
import { provision, startService } from './service.mjs';

export class HttpDriver {
  /** Every operation of a run has its own number, and so its own idempotency keys. */
  next = 0;

  /**
   * @param {import('./types.ts').Service} service
   * @param {Redis} redis
   * @param {import('./types.ts').Target} target
   */
  constructor(service, redis, target) {
    this.service = service;
    this.redis = redis;
    this.target = target;
    this.load = startHttpLoad();
  }

  /**
   * Starts a service with a tenant of three budgeted scopes.
   * @param {string} [root] the built checkout to start it from, if it is not this one
   * @param {Readonly<Record<string, string>>} [settings] variables beside the defaults
   */
  static async start(root, settings = {}) {
    const service = await startService(settings, root);
    const redis = new Redis({ path: service.socket, maxRetriesPerRequest: 1, retryStrategy: () => null });
    redis.on('error', () => undefined);
    try {
      // Redis rewrites its log whenever it has doubled, which at this pace is every few seconds and takes
      // most of a processor. Whether that falls into a phase would be chance, so rewrites are held off.
      await redis.config('SET', 'auto-aof-rewrite-percentage', 0);
      const tenant = await provision(service.port);
      return new HttpDriver(service, redis, { ...tenant, run: randomBytes(4).toString('hex') });
    } catch (error) {
      redis.disconnect();
      await service.stop();
      throw error;
    }
  }

  async stop() {
    this.load.stop();
    this.redis.disconnect();
    await this.service.stop();
  }

  /**
   * Closed loop: each connection starts its next operation when the last one is done.
   * @param {number} connections
   * @param {number} seconds
   */
  async saturate(connections, seconds) {
    say(`closed loop with ${connections} connection${connections === 1 ? '' : 's'}`);
    const { port } = this.service;
    const result = await this.timed((first) =>
      this.load.ask({ kind: 'closed', port, connections, seconds, target: this.target, first }),
    );
    return { connections, ...result };
  }

  /**
   * Open loop: operations start at fixed instants.
   * @param {number} rate
   * @param {number} seconds
   */
  paced(rate, seconds) {
    const { port } = this.service;
    return this.timed((first) =>
      this.load.ask({ kind: 'paced', port, rate, seconds, target: this.target, first }),
    );
  }

  /**
   * Runs one phase and adds the CPU seconds that each process spent in it.
   * @template {import('./types.ts').RateResult} PhaseResult
   * @param {(first: number) => Promise<PhaseResult>} load
   */
  async timed(load) {
    const used = await countCpu(this.service.pid, this.redis);
    const result = await load(this.next);
    const use = await used();
    this.next = Math.max(this.next, result.next);
    const { server_cpu_s, redis_cpu_s } = use;
    return { ...result, server_cpu_s, redis_cpu_s, other_cpu_s: otherCpuSeconds(use, result.cpu_s) };
  }
}
