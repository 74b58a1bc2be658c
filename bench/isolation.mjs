// The effect of one tenant on another: one attacks at full load, while the other reserves at a fixed rate,
// first alone and then during the attack.
import { setTimeout as delay } from 'node:timers/promises';
import { SetupError } from '../scripts/install.mjs';
import { Client } from './client.mjs';
import { unlessShort } from './duration.mjs';
import { Harness } from './harness.mjs';
import { Holds } from './holds.mjs';
import { ATTACKS } from './isolation-attacks.mjs';
import { isolationResult } from './isolation-report.mjs';
import { startHttpLoad } from './load.mjs';
import { startNameServer } from './name-server.mjs';
import { say, storeOf } from './report.mjs';

/**
 * @typedef {import('./isolation-attacks.mjs').Attack} Attack
 * @typedef {import('./isolation-attacks.mjs').Prepared} Prepared
 */

const RATE = unlessShort(200, 100);
const SECONDS = unlessShort(10, 2);
const WARM_UP_SECONDS = unlessShort(3, 1);
/** The attack starts this long before the victim, so that the figures show it at full load. */
const HEAD_START_MS = 500;
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
  const settings = names === undefined ? {} : { WEBHOOK_DNS_SERVERS: names.address };
  try {
    return await Harness.with({ settings }, async (harness) => {
      await harness.redis.config('SET', 'slowlog-max-len', SLOWLOG_ENTRIES);
      const bench = new IsolationBenchmark(harness, await harness.target('victim'));
      return bench.measure(attack, () => names?.silence());
    });
  } finally {
    names?.stop();
  }
}

export class IsolationBenchmark {
  /** How long each phase takes. */
  seconds = SECONDS;

  /**
   * @param {Harness} harness
   * @param {import('./types.ts').Target} victim
   */
  constructor(harness, victim) {
    this.harness = harness;
    this.service = harness.service;
    this.redis = harness.redis;
    this.attackLoad = harness.use(startHttpLoad(), (load) => load.stop());
    this.victim = victim;
  }

  /**
   * @param {Attack} attack
   * @param {() => void} silenceNames
   * @returns {Promise<import('./isolation-report.mjs').Round>}
   */
  async measure(attack, silenceNames) {
    say(`${attack.name}: preparing`);
    const attacker = await this.harness.target('attacker');
    const plan = await attack.prepare(this, attacker);
    say(`${attack.name}: the other tenant alone`);
    await this.reserves(WARM_UP_SECONDS);
    const alone = await this.phase(undefined, plan);
    say(`${attack.name}: the other tenant beside it`);
    silenceNames();
    const beside = await this.phase(plan.load, plan);
    plan.end?.();
    return { name: attack.name, of: plan.of, alone, beside, store: await storeOf(this.redis) };
  }

  /** @param {number} seconds */
  async reserves(seconds) {
    const plan = { ...this.harness.common(), rate: RATE, seconds };
    const result = await this.harness.load.ask({ kind: 'watch', ...plan });
    this.harness.next = result.next;
    return result;
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
        : this.attackLoad.ask({ kind: 'attack', port: this.service.port, seconds: SECONDS + 1, ...load });
    await delay(HEAD_START_MS);
    const [result, deliveries] = await Promise.all([this.reserves(SECONDS), plan.deliveries?.()]);
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

  /**
   * Sends each request once, and reports how many were accepted.
   * @param {import('./types.ts').AttackRequest[]} requests
   */
  async send(requests) {
    const client = new Client(this.service.port, { connections: PREPARING_CONNECTIONS, headers: {} });
    const left = [...requests];
    let accepted = 0;
    await Promise.all(
      Array.from({ length: PREPARING_CONNECTIONS }, async () => {
        for (let one = left.pop(); one !== undefined; one = left.pop()) {
          const { method, path, headers, body } = one;
          const { status } = await client.ask(method, path, JSON.stringify(body), headers);
          accepted += status === 200 || status === 201 ? 1 : 0;
        }
      }),
    );
    await client.close();
    return accepted;
  }

  /**
   * Runs `work` with holds of the tenants, made by the reserve script itself.
   * @template Made
   * @param {import('./types.ts').Tenant[]} tenants
   * @param {(holds: Holds) => Promise<Made>} work
   */
  async withHolds(tenants, work) {
    const holds = new Holds(this.service.socket, tenants);
    try {
      return await work(holds);
    } finally {
      holds.close();
    }
  }
}
