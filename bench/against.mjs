// npm run bench -- against [<ref>]: this checkout and another commit, the last release if none is given. Both run, each with a Redis of its
// own, and the one that is not measured is stopped, so that its background work counts only in its own phases.
import { basename, join } from 'node:path';
import { ROOT, SetupError, readJson } from '../scripts/install.mjs';
import { builtCheckout, ownLastRelease } from './checkout.mjs';
import { unlessShort } from './duration.mjs';
import { Harness } from './harness.mjs';
import { hundredths, median, say, tableOf, whole } from './report.mjs';

/**
 * @typedef {import('./types.ts').HttpPhase} Phase
 * @typedef {{ title: string, load: Parameters<Harness['saturate']>[2], connections?: number }} Row
 * @typedef {Pick<Phase, 'server_cpu_s' | 'redis_cpu_s' | 'operations'>} Spent
 * @typedef {{ ours: Phase, theirs: Phase }} Pair
 * @typedef {{ redis: string, row: string, connections: number, pairs: Pair[] }} Compared
 * @typedef {{ ref: string, rounds: number, seconds: number, rows: string[], connections: number[], redis: string[] }} Plan
 * @typedef {import('./harness.mjs').What} What
 */

/** @type {Record<string, Row>} */
const ROWS = {
  reserve: { title: 'reserve', load: { kind: 'sets' } },
  commit: { title: 'reserve and commit', load: { kind: 'closed' } },
  debit: { title: 'direct debit', load: { kind: 'debits' } },
  batch: { title: 'reserve and commit, 50 a batch', load: { kind: 'closed', perRequest: 50 } },
  set: { title: 'reserve, sets of two', load: { kind: 'sets', perRequest: 2 } },
  extend: { title: 'extend', load: { kind: 'extensions' } },
  // More queries of a tenant wait for each other, and are refused on a busy machine.
  list: { title: 'list of 100 reservations', load: { kind: 'lists' }, connections: 4 },
};
const REDIS = ['embedded', 'external'];
/** What has run less often is not compiled yet, and costs a multiple. */
const WARM_UP = { connections: 32, operations: unlessShort(10_000, 3000), seconds: unlessShort(5, 2) };

/** Each with its default, what one of its comma-separated values may be, and that in words. */
const OPTIONS = {
  rounds: { usual: unlessShort('5', '3'), one: /^[1-9]?[13579]$/, words: 'an odd number below 100' },
  seconds: { usual: unlessShort('3', '1'), one: /^[1-9]?[13579]$/, words: 'an odd number below 100' },
  rows: {
    usual: unlessShort(Object.keys(ROWS).join(), 'reserve,commit,debit'),
    one: new RegExp(`^(${Object.keys(ROWS).join('|')})$`),
    words: `some of ${Object.keys(ROWS).join(', ')}`,
  },
  connections: { usual: unlessShort('32,200', '32'), one: /^[1-9]\d{0,2}$/, words: 'numbers below 1000' },
  redis: {
    usual: unlessShort(REDIS.join(), 'embedded'),
    one: /^(embedded|external)$/,
    words: REDIS.join(', '),
  },
};

/**
 * What `npm run bench -- against` is asked for.
 * @param {readonly string[]} words
 * @returns {Plan}
 */
export function readPlan(words) {
  const given = Object.fromEntries(
    Object.entries(OPTIONS).map(([name, { usual }]) => [name, usual.split(',')]),
  );
  const refs = [];
  for (const word of words) {
    const [, name = '', text = ''] = /^--(\w+)=(.*)$/.exec(word) ?? [];
    const option = OPTIONS[/** @type {keyof typeof OPTIONS} */ (name)];
    const values = text.split(',');
    if (!word.startsWith('-')) {
      refs.push(word);
    } else if (option === undefined) {
      throw new SetupError(`${JSON.stringify(word)} is no option of npm run bench -- against`);
    } else if (!values.every((value) => option.one.test(value))) {
      throw new SetupError(`${word}: give ${option.words}`);
    } else {
      given[name] = values;
    }
  }
  if (refs.length > 1) {
    throw new SetupError(`give one commit to compare with, and not ${refs.join(' ')}`);
  }
  const { rows = [], redis = [], connections = [] } = given;
  const numberOf = (/** @type {string} */ name) => Number(given[name]?.[0]);
  return {
    ref: refs[0] ?? ownLastRelease().commit,
    rounds: numberOf('rounds'),
    seconds: numberOf('seconds'),
    rows,
    redis,
    connections: connections.map(Number),
  };
}

/** @param {Plan} plan */
export async function measureAgainst(plan) {
  const root = builtCheckout(plan.ref);
  const { version } = /** @type {{ version: string }} */ (readJson(join(root, 'package.json')));
  const compared = await compare({}, { root }, plan);
  return {
    title: 'Against another commit',
    subject: `This checkout against ${version}, ${basename(root).slice(0, 8)}, in turn: \`other → this\`. Medians of ${plan.rounds * plan.seconds} seconds each, in ${plan.rounds} rounds, and of the ratios of one second beside the next.`,
    store: 'processor time is that of a request, or of both requests of a reserve and its commit',
    tables: [tableOfCompared(compared)],
    figures: [],
    compared,
  };
}

/** @type {(row: string, wanted: readonly number[]) => readonly number[]} */
const connectionsOf = (row, wanted) =>
  ROWS[row]?.connections === undefined ? wanted : [ROWS[row].connections];

/**
 * Each round has new processes, because one may be a tenth faster or slower than another one of the same code for as long as it lives.
 * @param {What} ours
 * @param {What} theirs
 * @param {Omit<Plan, 'ref'>} plan
 */
export async function compare(ours, theirs, { rounds, seconds, rows, connections, redis }) {
  const compared = redis.flatMap((where) =>
    rows.flatMap((row) =>
      connectionsOf(row, connections).map(
        (count) => /** @type {Compared} */ ({ redis: where, row, connections: count, pairs: [] }),
      ),
    ),
  );
  for (let round = 0; round < rounds; round += 1) {
    for (const where of redis) {
      say(`round ${round + 1} of ${rounds}, ${where} Redis`);
      const own = compared.filter((one) => one.redis === where);
      const isExternal = where === 'external';
      await Harness.with({ ...ours, isExternal }, (one) =>
        Harness.with({ ...theirs, isExternal }, (other) =>
          measureRound(own, one, other, { seconds, isOursFirst: round % 2 === 0 }),
        ),
      );
    }
  }
  return compared;
}

/**
 * @param {readonly Compared[]} compared
 * @param {Harness} ours
 * @param {Harness} theirs
 * @param {{ seconds: number, isOursFirst: boolean }} how
 */
async function measureRound(compared, ours, theirs, { seconds, isOursFirst }) {
  const sides = isOursFirst ? [ours, theirs] : [theirs, ours];
  for (const side of sides) {
    await side.target();
    for (const row of new Set(compared.map(({ row }) => row))) {
      const load = ROWS[row]?.load;
      const connections = ROWS[row]?.connections ?? WARM_UP.connections;
      let [operations, turns] = [0, 0];
      while (operations < WARM_UP.operations && turns < WARM_UP.seconds) {
        operations += (await side.saturate(connections, 1, load)).operations;
        turns += 1;
      }
    }
    side.pause();
  }
  for (const { row, connections, pairs } of compared) {
    for (let second = 0; second < seconds; second += 1) {
      /** @type {Map<Harness, Phase>} */
      const phases = new Map();
      for (const side of second % 2 === 0 ? sides : [...sides].reverse()) {
        side.resume();
        phases.set(side, await side.saturate(connections, 1, ROWS[row]?.load));
        side.pause();
      }
      const phaseOf = (/** @type {Harness} */ side) => /** @type {Phase} */ (phases.get(side));
      pairs.push({ ours: phaseOf(ours), theirs: phaseOf(theirs) });
    }
  }
}

/** Of a request, in µs. */
const PROCESSOR_TIME = {
  service: (/** @type {Spent} */ { server_cpu_s, operations }) => (server_cpu_s * 1e6) / operations,
  Redis: (/** @type {Spent} */ { redis_cpu_s, operations }) => (redis_cpu_s * 1e6) / operations,
};
/** @type {Record<string, (phase: Phase) => number>} */
const VALUES = {
  'service, µs': PROCESSOR_TIME.service,
  'Redis, µs': PROCESSOR_TIME.Redis,
  'a second': ({ per_second }) => per_second,
  'p50, ms': ({ p50_ms }) => p50_ms,
  'p99, ms': ({ p99_ms }) => p99_ms,
};

/** What a release may cost more than the last one, if no reason is written down. */
const ALLOWED = 1.03;

/**
 * @typedef {{ release: string, row: string, redis: string, connections: number, part: string, ratio: number, reason: string }} Reason
 *   why a row costs up to so much more than that release, and which of service and Redis does
 */

/**
 * The processor time that nobody has given a reason for, each as a sentence.
 * @param {readonly Compared[]} compared
 * @param {string} release the version that was compared with
 * @param {readonly Reason[]} reasons
 */
export function unexplained(compared, release, reasons) {
  return compared.flatMap(({ redis, row, connections, pairs }) =>
    Object.entries(PROCESSOR_TIME).flatMap(([part, valueOf]) => {
      const ratio = median(pairs.map(({ ours, theirs }) => valueOf(ours) / valueOf(theirs)));
      const place = { release, row, redis, connections, part };
      const given = reasons.find((reason) =>
        Object.entries(place).every(([name, value]) => Reflect.get(reason, name) === value),
      );
      const isAllowed =
        ratio <= ALLOWED || (given !== undefined && given.reason !== '' && ratio <= given.ratio);
      const what = `${row} at ${connections} connections, ${redis} Redis: ${part} takes ${hundredths(ratio)} of ${release}'s processor time`;
      return isAllowed ? [] : [`${what}; say why in bench/slower.json`];
    }),
  );
}

/**
 * Compares this checkout with its last release in every row.
 * @returns {Promise<string[]>} what `npm run release` refuses
 */
export async function slowerThanLastRelease() {
  const { version } = ownLastRelease();
  const { compared } = await measureAgainst(readPlan([]));
  const reasons = /** @type {Reason[]} */ (readJson(join(ROOT, 'bench', 'slower.json')));
  return unexplained(compared, version, reasons);
}

/** @param {readonly Compared[]} compared */
export function tableOfCompared(compared) {
  /** @type {Record<string, (one: Compared) => string>} */
  const columns = {
    Redis: ({ redis }) => redis,
    row: ({ row }) => ROWS[row]?.title ?? row,
    conn: ({ connections }) => String(connections),
  };
  for (const [name, valueOf] of Object.entries(VALUES)) {
    const text = name.endsWith('ms') ? hundredths : whole;
    columns[name] = ({ pairs }) =>
      `${text(median(pairs.map(({ theirs }) => valueOf(theirs))))} → ${text(median(pairs.map(({ ours }) => valueOf(ours))))}`;
    columns[`ratio${' '.repeat(Object.keys(columns).length)}`] = ({ pairs }) => {
      const ratios = pairs.map(({ ours, theirs }) => valueOf(ours) / valueOf(theirs));
      return `${hundredths(median(ratios))} (${hundredths(Math.min(...ratios))} to ${hundredths(Math.max(...ratios))})`;
    };
  }
  return tableOf(compared, columns, 3);
}
