// What it costs to send operations in batches, in pairs: the same operations in batches and in single requests, in turn. Also reserves in
// sets.
import { setTimeout as delay } from 'node:timers/promises';
import { SetupError } from '../scripts/install.mjs';
import { unlessShort } from './duration.mjs';
import { Harness } from './harness.mjs';
import { startHttpLoad } from './load.mjs';
import { aim, hundredths, say, storeOf, tableOf, whole } from './report.mjs';
import { tagOfTenant } from './workload.mjs';

/**
 * @typedef {import('./types.ts').HttpPhase} Phase
 * @typedef {import('./types.ts').Figure} Figure
 * @typedef {import('./types.ts').WatchResult} Watched
 * @typedef {{ several: Side, single: Side }} Pair
 * @typedef {{ per_second: number, operations: number, server_cpu_s: number, redis_cpu_s: number, cpu_s: number, neighbour?: Watched }} Side
 */

const CONNECTIONS = 8;
const PER_BATCH = 50;
const PER_SET = 2;
/** Odd, so that there is a median. */
const ROUNDS = unlessShort(3, 1);
const SECONDS = unlessShort(4, 1);
const WARM_UP_SECONDS = unlessShort(3, 1);
/** Reserves a second of the other tenant. */
const NEIGHBOUR_RATE = unlessShort(200, 100);
/** The load starts this long before the other tenant, so that the figures show it at full load. */
const HEAD_START_MS = 500;
/** Of what single requests reach in a closed loop. */
const SHARE = 0.6;
const TARGETS = { rate: 3, cpu: 0.45, neighbour: 2 };

const PARTS = { batches: measureBatches, sets: measureSets };

/** @param {{ only?: string }} options one part to measure; without it, all of them are measured */
export const measure = ({ only = '' }) =>
  Harness.with({}, async (harness) => {
    const parts = Object.entries(PARTS).filter(([name]) => name.includes(only));
    if (parts.length === 0) {
      throw new SetupError(`there is no part ${only}: ${Object.keys(PARTS).join(', ')}`);
    }
    await harness.target();
    const measured = [];
    for (const [name, measurePart] of parts) {
      say(name);
      measured.push(await measurePart(harness));
    }
    return {
      title: 'Several at once',
      command: 'npm run bench -- batch',
      subject:
        'At three budgeted scopes; several operations in one request against single requests, in turn.',
      store: await storeOf(harness.redis),
      tables: measured.map(({ table }) => table),
      figures: measured.flatMap(({ figures }) => figures),
    };
  });

/**
 * Pairs of phases, each side first in turn, because the speed of a shared machine drifts.
 * @param {(isSeveral: boolean) => Promise<Side>} phase
 */
async function inPairs(phase) {
  /** @type {Pair[]} */
  const pairs = [];
  while (pairs.length < ROUNDS) {
    const isSeveralFirst = pairs.length % 2 === 0;
    const first = await phase(isSeveralFirst);
    const second = await phase(!isSeveralFirst);
    pairs.push(isSeveralFirst ? { several: first, single: second } : { several: second, single: first });
  }
  return pairs;
}

/** @param {Harness} harness */
async function measureBatches(harness) {
  const neighbour = await neighbourOf(harness);
  const in50 = { perRequest: PER_BATCH };
  await harness.saturate(CONNECTIONS, WARM_UP_SECONDS);
  await harness.saturate(CONNECTIONS, WARM_UP_SECONDS, in50);
  const alone = await inPairs((isBatch) => harness.saturate(CONNECTIONS, SECONDS, isBatch ? in50 : {}));
  const rate = SHARE * Math.min(...alone.map(({ single }) => single.per_second));
  say(`another tenant beside ${whole(2 * rate)} operations a second`);
  const paced = await inPairs((isBatch) =>
    neighbour.beside(() => harness.paced(rate, SECONDS, isBatch ? in50 : {})),
  );
  say('another tenant beside closed loops');
  const closed = await inPairs((isBatch) =>
    neighbour.beside(() => harness.saturate(CONNECTIONS, SECONDS, isBatch ? in50 : {})),
  );
  const at = `${PER_BATCH} a request on ${CONNECTIONS} connections, against single requests on ${CONNECTIONS}`;
  return {
    table: sidesTable('batches', [
      ['closed loop', alone, 2],
      [`open loop at ${whole(2 * rate)} a second, beside another tenant`, paced, 2],
      ['closed loop, beside another tenant', closed, 2],
    ]),
    figures: [
      ratio(`operations a second, ${at}`, alone, ({ per_second }) => per_second, { atLeast: TARGETS.rate }),
      ratio('CPU of an operation there, the service', alone, serviceUs, { atMost: TARGETS.cpu }),
      ratio('CPU of an operation there, Redis', alone, redisUs),
      ratio('p50 of another tenant of the partition, the same operations a second in both', paced, p50, {
        atMost: TARGETS.neighbour,
      }),
      ratio('p50 of another tenant of the partition, closed loops', closed, p50),
    ],
  };
}

/** @param {Harness} harness */
async function measureSets(harness) {
  /** @type {(isSet: boolean, seconds: number) => Promise<Phase>} */
  const phase = (isSet, seconds) =>
    harness.saturate(CONNECTIONS, seconds, { kind: 'sets', perRequest: isSet ? PER_SET : 1 });
  await phase(true, WARM_UP_SECONDS);
  const pairs = await inPairs((isSet) => phase(isSet, SECONDS));
  return {
    table: sidesTable('sets of two', [['closed loop', pairs, 1]]),
    figures: [
      ratio(
        `reserves a second, in sets of two against single ones on ${CONNECTIONS} connections`,
        pairs,
        ({ per_second }) => per_second,
      ),
      ratio('CPU of a reserve there, the service', pairs, serviceUs),
      ratio('CPU of a reserve there, Redis', pairs, redisUs),
    ],
  };
}

/**
 * Another tenant in the partition of the first one, with a load process of its own.
 * @param {Harness} harness
 */
async function neighbourOf(harness) {
  const { port, target: first } = harness.common();
  let number = 0;
  while (tagOfTenant(`neighbour-${number}`) !== tagOfTenant(first.tenant)) {
    number += 1;
  }
  const target = await harness.target(`neighbour-${number}`);
  const load = harness.use(startHttpLoad(), (process) => process.stop());
  let next = 0;
  const reserves = async () => {
    await delay(HEAD_START_MS);
    const seconds = SECONDS - (2 * HEAD_START_MS) / 1000;
    const plan = { port, target, first: next, rate: NEIGHBOUR_RATE, seconds: Math.max(0.5, seconds) };
    const result = await load.ask({ kind: 'watch', ...plan });
    next = result.next;
    const failed = JSON.stringify(result.failures);
    if (failed !== '{}') {
      throw new Error(`reserves of the other tenant failed: ${failed}`);
    }
    return result;
  };
  /** @param {() => Promise<Side>} phase */
  const beside = async (phase) => {
    const [side, neighbour] = await Promise.all([phase(), reserves()]);
    return { ...side, neighbour };
  };
  return { beside };
}

/** @param {Side} side */
const serviceUs = ({ server_cpu_s, operations }) => (server_cpu_s * 1e6) / operations;
/** @param {Side} side */
const redisUs = ({ redis_cpu_s, operations }) => (redis_cpu_s * 1e6) / operations;
/** @param {Side} side */
const p50 = ({ neighbour }) => neighbour?.p50_ms ?? NaN;

/**
 * @param {string} name
 * @param {readonly Pair[]} pairs
 * @param {(side: Side) => number} valueOf
 * @param {{ atMost?: number, atLeast?: number }} [target]
 */
const ratio = (name, pairs, valueOf, target = {}) =>
  aim(
    `${name}: ratio`,
    pairs.map(({ several, single }) => valueOf(several) / valueOf(single)),
    { text: hundredths, ...target },
  );

/**
 * @param {number} each how many requests of their own the operations of the load would be
 * @returns {Record<string, (side: Side) => string>}
 */
const columnsOf = (each) => ({
  'operations/s': ({ per_second }) => whole(each * per_second),
  'µs of the service': (side) => whole(serviceUs(side) / each),
  'µs of Redis': (side) => whole(redisUs(side) / each),
  'µs of the load': ({ cpu_s, operations }) => whole((cpu_s * 1e6) / operations / each),
});

/**
 * @param {string} several
 * @param {readonly (readonly [name: string, pairs: readonly Pair[], each: number])[]} phases
 */
function sidesTable(several, phases) {
  const rows = phases.flatMap(([name, pairs, each]) =>
    pairs.flatMap((pair) => [
      { name, kind: several, each, side: pair.several },
      { name, kind: 'single requests', each, side: pair.single },
    ]),
  );
  /** @type {Record<string, (row: (typeof rows)[number]) => string>} */
  const columns = { phase: ({ name }) => name, '': ({ kind }) => kind };
  for (const head of Object.keys(columnsOf(1))) {
    columns[head] = ({ each, side }) => columnsOf(each)[head]?.(side) ?? '';
  }
  const hasNeighbour = rows.some(({ side }) => side.neighbour !== undefined);
  if (hasNeighbour) {
    columns['other tenant: p50 ms'] = ({ side }) => (side.neighbour ? hundredths(p50(side)) : '');
    columns['p99 ms'] = ({ side }) => (side.neighbour ? hundredths(side.neighbour.p99_ms) : '');
  }
  return tableOf(rows, columns, 2);
}
