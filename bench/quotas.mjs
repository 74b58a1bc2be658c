// What a policy's quotas cost a reserve: tenants without a policy, with one, and with four quotas reserve in
// turn.
import { mainThreadSeconds } from './cpu.mjs';
import { unlessShort } from './duration.mjs';
import { GrowthLedger } from './growth-ledger.mjs';
import { aim, hundredths, median, storeOf, tableOf, tenths } from './report.mjs';
import { askAsAdmin } from './service.mjs';

/** The number of rounds; odd, so that there is a median. */
const ROUNDS = unlessShort(15, 1);
const CALLS = unlessShort(800, 160);
/** The most calls that share a run of the script. */
const GROUP = 16;
/** The number of calls that are sent at once. Unless they have separate lanes, they share runs. */
const BATCH = 40;
/** Higher than all counts here, so that no reserve is refused and no threshold is crossed. */
const MAX_CALLS = 100_000;
const TARGET = 1.15;

const KIND = 'llm.completion';
const quota = (/** @type {string} */ window) => ({ action_kind: KIND, max_calls: MAX_CALLS, window });
const CALENDAR = ['per_minute_tumbling', 'per_hour_tumbling', 'per_day_tumbling'].map(quota);
const RISK = { risk_class: 'side_effect', max_calls: MAX_CALLS, window: 'per_tenant_per_day' };

/** @type {readonly { name: string, rules: object | undefined, run: string }[]} */
const SIDES = [
  { name: 'no policy', rules: undefined, run: '' },
  { name: 'a policy without quotas', rules: {}, run: '' },
  { name: 'four quotas', rules: { action_quotas: CALENDAR, risk_class_quotas: [RISK] }, run: '' },
  {
    name: 'three and one by run',
    rules: { action_quotas: [...CALENDAR, quota('per_run')] },
    run: 'run-1',
  },
];

/**
 * @typedef {import('./growth-ledger.mjs').Population} Population
 * @typedef {{ population: Population, facts: string }} Side
 * @typedef {{ alone: number, together: number }} Cost  µs of a reserve
 */

export const measure = () =>
  GrowthLedger.with(async (ledger) => {
    const sides = [];
    for (const [index, { rules, run }] of SIDES.entries()) {
      sides.push({
        population: await sideOf(ledger, `quotas-${index}`, rules),
        facts: `side_effect|${run}|||`,
      });
    }
    /** @type {Cost[][]} by round, then side */
    const rounds = [];
    // The first round warms up.
    for (let round = 0; round <= ROUNDS; round += 1) {
      rounds.push(await costsOf(ledger, sides, round));
    }
    return resultOf(rounds.slice(1), await storeOf(ledger.redis));
  });

/**
 * A tenant with budgets at three scopes, and a policy for them unless there are no rules.
 * @param {GrowthLedger} ledger
 * @param {string} tenant
 * @param {object | undefined} rules
 */
async function sideOf(ledger, tenant, rules) {
  const { population } = await ledger.provision(tenant);
  if (rules !== undefined) {
    await askAsAdmin(ledger.service.port, 'POST', '/v1/admin/policies', {
      tenant_id: tenant,
      name: 'benchmark',
      scope_pattern: `tenant:${tenant}`,
      ...rules,
    });
  }
  return population;
}

/**
 * All sides in turn, each round starting with the next one, because the speed of a shared machine drifts.
 * @param {GrowthLedger} ledger
 * @param {readonly Side[]} sides
 * @param {number} round
 */
async function costsOf(ledger, sides, round) {
  /** @type {Cost[]} */
  const costs = [];
  for (let turn = 0; turn < sides.length; turn += 1) {
    const index = (turn + round) % sides.length;
    const side = sides[index];
    if (side !== undefined) {
      costs[index] = {
        alone: await costOf(ledger, side, 1),
        together: await costOf(ledger, side, GROUP),
      };
    }
  }
  return costs;
}

/**
 * CPU time of Redis' main thread for each reserve, in µs.
 * @param {GrowthLedger} ledger
 * @param {Side} side
 * @param {number} together the calls that share a run of the script
 */
async function costOf(ledger, { population, facts }, together) {
  const before = await mainThreadSeconds(ledger.redis);
  for (let made = 0; made < CALLS; made += BATCH) {
    const calls = Array.from({ length: BATCH }, () => {
      const { keys, args } = ledger.reserveCall(ledger.nextHold(population), '10');
      return { keys, args: { ...args, actionFacts: facts } };
    });
    const replies =
      together === 1
        ? await Promise.all(
            calls.map(({ keys, args }, index) => ledger.lane(index).call('reserve', keys, args)),
          )
        : await ledger.scripts.callMany('reserve', calls);
    const wrong = replies.find((reply) => reply instanceof Error || reply.status !== 'ALLOW');
    if (wrong !== undefined) {
      throw wrong instanceof Error ? wrong : new Error(`a reserve was answered ${wrong.status}`);
    }
  }
  return (((await mainThreadSeconds(ledger.redis)) - before) * 1e6) / CALLS;
}

/** @type {Readonly<Record<keyof Cost, string>>} */
const KINDS = { alone: 'alone in a run', together: `${GROUP} in a run` };

/**
 * @param {readonly Cost[][]} rounds
 * @param {string} store
 * @returns {import('./types.ts').Measured}
 */
function resultOf(rounds, store) {
  const kinds = /** @type {(keyof Cost)[]} */ (Object.keys(KINDS));
  const valuesOf = (/** @type {number} */ side, /** @type {keyof Cost} */ kind) =>
    rounds.map((costs) => costs[side]?.[kind] ?? NaN);
  /** @type {(side: number, base: number, atMost?: object) => import('./types.ts').Figure[]} */
  const ratios = (side, base, atMost = {}) =>
    kinds.map((kind) => {
      const bases = valuesOf(base, kind);
      return aim(
        `${SIDES[side]?.name} beside ${SIDES[base]?.name}, ${KINDS[kind]}: ratio`,
        valuesOf(side, kind).map((value, round) => value / (bases[round] ?? NaN)),
        { text: hundredths, ...atMost },
      );
    });
  /** @type {Record<string, (kind: keyof Cost) => string>} */
  const columns = { 'µs of a reserve': (kind) => KINDS[kind] };
  for (const [side, { name }] of SIDES.entries()) {
    columns[name] = (kind) => tenths(median(valuesOf(side, kind)));
  }
  return {
    title: 'Quotas',
    command: 'npm run bench -- quotas',
    subject: 'A reserve at three budgeted scopes. Processor time is that of the main thread of Redis.',
    store,
    tables: [tableOf(kinds, columns, 1)],
    figures: [...ratios(2, 1, { atMost: TARGET }), ...ratios(2, 0), ...ratios(3, 1), ...ratios(1, 0)],
  };
}
