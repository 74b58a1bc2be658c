// The effect of one tenant on another: one attacks at full load, while the other reserves at a fixed rate,
// first alone and then during the attack.
import { setTimeout as delay } from 'node:timers/promises';
import { SetupError } from '../scripts/install.mjs';
import { unlessShort } from './duration.mjs';
import { Harness } from './harness.mjs';
import { ATTACKS } from './isolation-attacks.mjs';
import { startHttpLoad } from './load.mjs';
import { startNameServer } from './name-server.mjs';
import { aim, figure, hundredths, say, storeOf, sumOf, tableOf, tenths, whole } from './report.mjs';

/**
 * @typedef {import('./types.ts').Counts} Counts
 * @typedef {import('./isolation-attacks.mjs').Attack} Attack
 * @typedef {Awaited<ReturnType<typeof measureAttack>>} Round
 */

const RATE = unlessShort(200, 100);
const SECONDS = unlessShort(10, 2);
const WARM_UP_SECONDS = unlessShort(3, 1);
/** The attack starts this long before the victim, so that the figures show it at full load. */
const HEAD_START_MS = 500;
const SLOWLOG_FROM_US = 1000;
const SLOWLOG_ENTRIES = 1024;
const TARGETS = { script_ms: 10, times: 3 };

/**
 * @param {{ only?: string }} options a part of the names of the attacks to make; without it, all of them are made
 * @returns {Promise<import('./types.ts').Measured>}
 */
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
  return {
    title: 'Isolation',
    subject: `One tenant attacks at full tilt, another one makes ${RATE} reserves a second at three scopes for ${SECONDS} s.`,
    store: rounds[0]?.store ?? '',
    tables: [tableOf(rounds, COLUMNS, 4)],
    figures: rounds.flatMap(figuresOf),
  };
}

/**
 * Every attack has its own service, so that the leftovers of one do not affect the next.
 * @param {Attack} attack
 */
async function measureAttack({ name, usesNames = false, prepare }) {
  const names = usesNames ? await startNameServer() : undefined;
  const settings = names === undefined ? {} : { WEBHOOK_DNS_SERVERS: names.address };
  try {
    return await Harness.with({ settings }, async (harness) => {
      await harness.redis.config('SET', 'slowlog-max-len', SLOWLOG_ENTRIES);
      const victim = await harness.target('victim');
      const attackLoad = harness.use(startHttpLoad(), (load) => load.stop());
      say(`${name}: preparing`);
      const attacker = await harness.target('attacker');
      const plan = await prepare({ service: harness.service, victim, seconds: SECONDS }, attacker);
      say(`${name}: the other tenant alone`);
      await reserves(harness, WARM_UP_SECONDS);
      const alone = await measurePhase(harness, plan);
      say(`${name}: the other tenant beside it`);
      names?.silence();
      const beside = await measurePhase(harness, plan, () =>
        attackLoad.ask({ kind: 'attack', port: harness.service.port, seconds: SECONDS + 1, ...plan.load }),
      );
      plan.end?.();
      return { name, of: plan.of, alone, beside, store: await storeOf(harness.redis) };
    });
  } finally {
    names?.stop();
  }
}

/**
 * @param {Harness} harness
 * @param {number} seconds
 */
async function reserves(harness, seconds) {
  const result = await harness.load.ask({ kind: 'watch', ...harness.common(), rate: RATE, seconds });
  harness.next = result.next;
  return { ...result, failures: result.outcomes ?? {} };
}

/**
 * One phase of the victim, with or without the attack, and the longest command that Redis ran meanwhile.
 * @param {Harness} harness
 * @param {import('./isolation-attacks.mjs').Prepared} plan
 * @param {() => Promise<import('./types.ts').HttpResult>} [attack]
 */
async function measurePhase(harness, plan, attack) {
  const { redis } = harness;
  await redis.config('SET', 'slowlog-log-slower-than', SLOWLOG_FROM_US);
  await redis.slowlog('RESET');
  const attacked = attack?.();
  await delay(HEAD_START_MS);
  const [result, deliveries] = await Promise.all([reserves(harness, SECONDS), plan.deliveries?.()]);
  const statuses = (await attacked)?.outcomes ?? {};
  return { ...result, statuses, longest: await longestCommand(redis), deliveries };
}

/** @param {import('ioredis').Redis} redis */
async function longestCommand(redis) {
  // Each entry: its number, its time, its duration, and the command.
  const entries = /** @type {[number, number, number, string[]][]} */ (
    await redis.slowlog('GET', SLOWLOG_ENTRIES)
  );
  await redis.config('SET', 'slowlog-log-slower-than', -1);
  const [, , us, words] = entries.reduce((most, entry) => (entry[2] > most[2] ? entry : most), [0, 0, 0, []]);
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
 * `503: 12, no answer: 3`, or `none`.
 * @param {Counts} counts
 */
const words = (counts) =>
  Object.entries(counts)
    .map(([word, count]) => `${word}: ${whole(count)}`)
    .join(', ') || 'none';

const timesOf = (/** @type {Round} */ { alone, beside }) => beside.p99_ms / alone.p99_ms;

/** @type {Record<string, (row: Round) => string>} */
const COLUMNS = {
  attack: ({ name }) => name,
  'what the attacker has': ({ of }) => of,
  'answers to the attacker': ({ beside }) => words(beside.statuses),
  'longest command': ({ beside }) => beside.longest.name,
  ms: ({ beside }) => tenths(beside.longest.ms),
  'requests of the other': ({ beside }) => whole(beside.operations),
  failures: ({ beside }) => words(beside.failures),
  'p99 alone ms': ({ alone }) => tenths(alone.p99_ms),
  'beside ms': ({ beside }) => tenths(beside.p99_ms),
  times: (round) => tenths(timesOf(round)),
};

/** @param {Round} round */
function figuresOf(round) {
  const { name, alone, beside } = round;
  const failures = sumOf(Object.values(beside.failures));
  const [all, command] = [whole(beside.operations), ` (\`${beside.longest.name}\`)`];
  const [one, other] = [alone.deliveries, beside.deliveries];
  return [
    figure(`${name}: failures of the other`, `${whole(failures)} of ${all}`, 'none', failures === 0),
    aim(`${name}: longest command of Redis`, beside.longest.ms, {
      text: tenths,
      unit: ' ms',
      more: command,
      atMost: TARGETS.script_ms,
    }),
    aim(`${name}: p99 of the other, times that alone`, timesOf(round), {
      text: hundredths,
      atMost: TARGETS.times,
    }),
    ...(one === undefined || other === undefined
      ? []
      : [
          figure(
            `${name}: deliveries to the other`,
            `${other.count} of ${other.due}, p99 ${whole(other.p99_ms)} ms (alone ${whole(one.p99_ms)} ms)`,
            'all',
            other.count === other.due,
          ),
        ]),
  ];
}
