// The one way in which a benchmark gets a service: with its embedded Redis, tenants, load, and the CPU seconds that each phase takes of the
// service and of its Redis.
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { Redis } from 'ioredis';
import { countCpu, infoNumber } from './cpu.mjs';
import { startHttpLoad } from './load.mjs';
import { say } from './report.mjs';
import { provision, startService } from './service.mjs';

/**
 * @typedef {{ root?: string, isExternal?: boolean, settings?: Readonly<Record<string, string>> }} What
 *   the built checkout to start the service from, if it is not this one; whether Redis is started apart; and variables beside the defaults
 */

/**
 * A stopped service would not notice that this process has ended.
 * @type {Set<Harness>}
 */
const paused = new Set();
process.on('exit', () => paused.forEach((harness) => harness.resume()));
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.once(signal, () => process.exit(1));
}

/**
 * Linux may schedule sessions as groups, and the priority that a person gives to the benchmark's is not inherited.
 * @param {number} pid of a process with a session of its own
 */
function sharePriority(pid) {
  const group = (/** @type {number | string | undefined} */ of) => `/proc/${of}/autogroup`;
  if (existsSync(group('self'))) {
    writeFileSync(group(pid), readFileSync(group('self'), 'utf8').split('nice ')[1] ?? '0');
  }
}

export class Harness {
  /** Every operation of a run has its own number, and so its own idempotency keys. */
  next = 0;
  /** @type {(() => unknown)[]} */
  ends = [];
  /** @type {number[]} */
  pids = [];
  /** @type {import('./types.ts').HttpLoad | undefined} */
  process;
  /**
   * The first tenant, for which the load is.
   * @type {import('./types.ts').Target | undefined}
   */
  main;

  /**
   * @param {import('./types.ts').Service} service
   * @param {Redis} redis
   */
  constructor(service, redis) {
    this.service = service;
    this.redis = redis;
  }

  /**
   * @template Value
   * @param {What} what
   * @param {(harness: Harness) => Promise<Value>} work
   */
  static async with({ root, isExternal = false, settings = {} }, work) {
    const service = await startService(settings, root, isExternal);
    const redis = new Redis({ path: service.socket, maxRetriesPerRequest: 1, retryStrategy: () => null });
    redis.on('error', () => undefined);
    const harness = new Harness(service, redis);
    try {
      // Redis rewrites its log whenever it has doubled, which at this pace is every few seconds and takes
      // most of a processor. Whether that falls into a phase would be chance, so rewrites are held off.
      await redis.config('SET', 'auto-aof-rewrite-percentage', 0);
      harness.pids = [service.pid, infoNumber(await redis.info('server'), 'process_id')];
      harness.pids.forEach(sharePriority);
      return await work(harness);
    } finally {
      await harness.stop();
    }
  }

  /** Stops the service and its Redis until they are resumed. A run that is killed by SIGKILL meanwhile leaves them so. */
  pause() {
    paused.add(this);
    this.pids.forEach((pid) => process.kill(pid, 'SIGSTOP'));
  }

  resume() {
    if (paused.delete(this)) {
      this.pids.reverse().forEach((pid) => process.kill(pid, 'SIGCONT'));
    }
  }

  async stop() {
    this.resume();
    for (const end of this.ends.reverse()) {
      await end();
    }
    this.redis.disconnect();
    await this.service.stop();
  }

  /**
   * Something that ends before the service does.
   * @template Part
   * @param {Part} part
   * @param {(part: Part) => unknown} end
   */
  use(part, end) {
    this.ends.push(() => end(part));
    return part;
  }

  /** The process that makes the load. */
  get load() {
    this.process ??= this.use(startHttpLoad(), (load) => load.stop());
    return this.process;
  }

  /**
   * A tenant with a budget at each of three scopes.
   * @param {string} [name]
   * @returns {Promise<import('./types.ts').Target>}
   */
  async target(name) {
    const target = { ...(await provision(this.service.port, name)), run: randomBytes(4).toString('hex') };
    this.main ??= target;
    return target;
  }

  /**
   * @param {string} name
   * @param {number} count
   */
  async targets(name, count) {
    const targets = [];
    for (let number = 0; number < count; number += 1) {
      targets.push(await this.target(`${name}-${number}`));
    }
    return targets;
  }

  /** What every plan of a load says. */
  common() {
    if (this.main === undefined) {
      throw new Error('there is no tenant yet');
    }
    return { port: this.service.port, target: this.main, first: this.next };
  }

  /**
   * Closed loop: each connection starts its next operation when the last one is done.
   * @param {number} connections
   * @param {number} seconds
   * @param {Partial<Pick<import('./types.ts').ClosedPlan, 'kind' | 'perRequest' | 'targets' | 'ttlMs'>>} [what]
   */
  async saturate(connections, seconds, { kind = 'closed', ...what } = {}) {
    say(`closed loop with ${connections} connection${connections === 1 ? '' : 's'}`);
    const plan = { kind, connections, seconds, ...what, ...this.common() };
    return { connections, ...(await this.timed(() => this.load.ask(plan))) };
  }

  /**
   * Open loop: operations start at fixed instants.
   * @param {number} rate
   * @param {number} seconds
   * @param {Pick<import('./types.ts').OpenPlan, 'perRequest'>} [what]
   */
  paced(rate, seconds, what = {}) {
    return this.timed(() => this.load.ask({ kind: 'paced', rate, seconds, ...what, ...this.common() }));
  }

  /**
   * Runs one phase and adds the CPU seconds that each process spent in it.
   * @template {{ next: number, cpu_s: number }} PhaseResult
   * @param {() => Promise<PhaseResult>} load
   */
  async timed(load) {
    const used = await countCpu(this.service.pid, this.redis);
    const result = await load();
    const { server_cpu_s, redis_cpu_s } = await used();
    this.next = Math.max(this.next, result.next);
    return { ...result, server_cpu_s, redis_cpu_s };
  }
}
