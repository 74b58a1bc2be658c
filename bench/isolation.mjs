// The effect of one tenant on another: one attacks at full load, while the other reserves at a fixed rate,
// first alone and then during the attack.
import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { SetupError } from '../scripts/install.mjs';
import { unlessShort } from './duration.mjs';
import { ATTACKS } from './isolation-attacks.mjs';
import { isolationResult } from './isolation-report.mjs';
import { startAttack, startWatchLoad } from './load.mjs';
import { startNameServer } from './name-server.mjs';
import { say } from './report.mjs';
import { provision, startService } from './service.mjs';
import { Holds } from './sweep-holds.mjs';

/**
 * @typedef {import('./isolation-attacks.mjs').Attack} Attack
 * @typedef {import('./isolation-attacks.mjs').Prepared} Prepared
 */

const RATE = unlessShort(200, 100);
const SECONDS = unlessShort(10, 2);
const WARM_UP_SECONDS = unlessShort(3, 1);
/** The attack starts this long before the victim, so that the figures show it at full load. */
const HEAD_START_MS = 500;
const PREPARATION_TIMEOUT_MS = 600_000;
const PREPARING_CONNECTIONS = 32;
const SLOWLOG_FROM_US = 1000;
const SLOWLOG_ENTRIES = 1024;

/** @param {{ only?: string }} options a part of the names of the attacks to make; without it, all of them are made */
export async function measure({ only = '' }) {
  const attacks = ATTACKS.filter(({ name }) => name.includes(only));
  if (attacks.length === 0) {
    const names = ATTACKS.map(({ name }) => `  ${name}`).join('\n');
    throw new SetupError(`no attack has ${JSON.stringify(only)} in its name; there are\n${names}`);
  }
  const rounds = [];
  for (const attack of attacks) {
    rounds.push(await measureAttack(attack));
  }
  return isolationResult({ rate: RATE, seconds: SECONDS, rounds });
}

/**
 * Every attack has its own service, so that the leftovers of one do not affect the next.
 * @param {Attack} attack
 */
async function measureAttack(attack) {
  const names = attack.usesNames === true ? await startNameServer() : undefined;
  const service = await startService(names === undefined ? {} : { WEBHOOK_DNS_SERVERS: names.address });
  const redis = new Redis({ path: service.socket, maxRetriesPerRequest: 1 });
  redis.on('error', () => undefined);
  const [victimLoad, attackLoad] = [startWatchLoad(), startAttack(PREPARATION_TIMEOUT_MS)];
  try {
    await redis.config('SET', 'auto-aof-rewrite-percentage', '0');
    await redis.config('SET', 'slowlog-max-len', SLOWLOG_ENTRIES);
    const victim = { ...(await provision(service.port, 'victim')), run: randomBytes(4).toString('hex') };
    const bench = new IsolationBenchmark({ service, redis, victimLoad, attackLoad, victim });
    return await bench.measure(attack, () => names?.silence());
  } finally {
    victimLoad.stop();
    attackLoad.stop();
    redis.disconnect();
    await service.stop();
    names?.stop();
  }
}

export class IsolationBenchmark {
  next = 0;
  /** How long each phase takes. */
  seconds = SECONDS;

  /**
   * @param {{
   *   service: import('./types.ts').Service,
   *   redis: Redis,
   *   victimLoad: import('./types.ts').WatchLoad,
   *   attackLoad: import('./types.ts').AttackLoad,
   *   victim: import('./types.ts').Target,
   * }} parts
   */
  constructor({ service, redis, victimLoad, attackLoad, victim }) {
    this.service = service;
    this.redis = redis;
    this.victimLoad = victimLoad;
    this.attackLoad = attackLoad;
    this.victim = victim;
  }

  /**
   * @param {Attack} attack
   * @param {() => void} silenceNames
   * @returns {Promise<import('./isolation-report.mjs').Round>}
   */
  async measure(attack, silenceNames) {
    say(`${attack.name}: preparing`);
    const attacker = await provision(this.service.port, 'attacker');
    const plan = await attack.prepare(this, attacker);
    say(`${attack.name}: the other tenant alone`);
    await this.reserves(WARM_UP_SECONDS);
    const alone = await this.phase(undefined, plan);
    say(`${attack.name}: the other tenant beside it`);
    silenceNames();
    const beside = await this.phase(plan.load, plan);
    plan.end?.();
    return { name: attack.name, of: plan.of, alone, beside, store: await this.store() };
  }

  /** @param {number} seconds */
  reserves(seconds) {
    return this.victimLoad.ask({
      kind: 'watch',
      port: this.service.port,
      rate: RATE,
      seconds,
      target: this.victim,
      first: this.next,
    });
  }

  /**
   * One phase of the victim, with or without the attack, and the longest command that Redis ran meanwhile.
   * @param {Prepared['load'] | undefined} load
   * @param {Prepared} plan
   * @returns {Promise<import('./isolation-report.mjs').Phase>}
   */
  async phase(load, plan) {
    await this.redis.config('SET', 'slowlog-log-slower-than', SLOWLOG_FROM_US);
    await this.redis.slowlog('RESET');
    const attacked =
      load === undefined
        ? Promise.resolve({ statuses: {} })
        : this.attackLoad.ask({ port: this.service.port, seconds: SECONDS + 1, ...load });
    await delay(HEAD_START_MS);
    const [result, deliveries] = await Promise.all([this.reserves(SECONDS), plan.deliveries?.()]);
    this.next = result.next;
    const { statuses } = await attacked;
    const longest = await this.longestCommand();
    return { ...result, statuses, longest, deliveries };
  }

  async longestCommand() {
    // Each entry: its number, its time, its duration, and the command.
    const entries = /** @type {[number, number, number, string[]][]} */ (
      await this.redis.slowlog('GET', SLOWLOG_ENTRIES)
    );
    await this.redis.config('SET', 'slowlog-log-slower-than', -1);
    const [, , us, words] = entries.reduce(
      (most, entry) => (entry[2] > most[2] ? entry : most),
      [0, 0, 0, []],
    );
    // A function's name is that of its script, followed by a hash of its text.
    const name =
      words[0]?.toUpperCase() === 'FCALL'
        ? String(words[1])
            .replace(/^holdfast_/, '')
            .replace(/_[0-9a-f]{12}$/, '')
        : words.slice(0, 2).join(' ');
    return { ms: us / 1000, name };
  }

  async store() {
    const info = await this.redis.info('server');
    return `Redis ${/^redis_version:(\S+)/m.exec(info)?.[1]} embedded`;
  }

  /**
   * Sends each request once, and reports how many were accepted.
   * @param {import('./types.ts').AttackRequest[]} requests
   */
  async send(requests) {
    const { statuses } = await this.attackLoad.ask({
      port: this.service.port,
      connections: PREPARING_CONNECTIONS,
      seconds: PREPARATION_TIMEOUT_MS / 1000,
      once: true,
      requests,
    });
    return (statuses['200'] ?? 0) + (statuses['201'] ?? 0);
  }

  /**
   * Runs `work` with holds of the tenants, made by the reserve script itself.
   * @template Made
   * @param {import('./types.ts').Tenant[]} tenants
   * @param {(holds: Holds) => Promise<Made>} work
   */
  async withHolds(tenants, work) {
    const holds = new Holds(this.service.socket, tenants, randomBytes(4).toString('hex'));
    try {
      return await work(holds);
    } finally {
      holds.close();
    }
  }
}
