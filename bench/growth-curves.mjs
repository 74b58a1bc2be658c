// The curves of `npm run bench -- growth`: how each ledger grows, and what is measured at each size.
import { usedMemory } from './cpu.mjs';
import { unlessShort } from './duration.mjs';
import { GrowthLedger, medianCost, roundsOf } from './growth-ledger.mjs';
import { queryCosts } from './growth-queries.mjs';
import { curve } from './growth-page.mjs';
import { median, say, storeOf, whole } from './report.mjs';
import { allowLocalWebhooks, askAsAdmin } from './service.mjs';

/**
 * @typedef {import('./types.ts').Curve} Curve
 * @typedef {import('./growth-ledger.mjs').Population} Population
 * @typedef {import('./growth-ledger.mjs').Kind} Kind
 * @typedef {{ size: number, reserve: number, commit: number, denied: number }} Cost  µs
 */

/** An odd number of rounds, so that there is a median. */
const PLAN = unlessShort({ rounds: 5, calls: 2000 }, { rounds: 1, calls: 100 });
const QUERIES = unlessShort(50, 5);
const LIVE = unlessShort([1000, 10_000, 100_000, 1_000_000, 5_000_000], [1000, 2000]);
const TENANTS = unlessShort([1, 10, 100, 1000, 10_000, 100_000], [1, 100]);
const BUDGETS = unlessShort([1, 10, 100, 1000, 10_000, 100_000], [1, 100]);
const SUBSCRIPTIONS = unlessShort([0, 1, 10, 100, 1000], [0, 10]);
const SCOPES = [1, 2, 3, 4, 5, 6];
/** The number of live reservations in a ledger where their number is not what is measured. */
const FEW = 1000;
const MICROSECONDS = 'µs of Redis for each call';

const reserveAndCommit = (/** @type {readonly Cost[]} */ costs) => ({
  reserve: costs.map(({ reserve }) => reserve),
  commit: costs.map(({ commit }) => commit),
});

/**
 * Populations of one ledger, in turn.
 * @param {readonly { size: number, population: Population }[]} sized
 * @param {readonly Kind[]} [kinds]
 * @returns {Promise<Cost[]>}
 */
async function costsBeside(sized, kinds = ['reserve', 'commit']) {
  const measured = await roundsOf(
    sized.map(({ population }) => population),
    kinds,
    PLAN,
  );
  return sized.map(({ size }, index) => costOf(size, measured[index] ?? []));
}

/** @type {(size: number, rounds: readonly Record<Kind, number>[]) => Cost} */
const costOf = (size, rounds) => ({
  size,
  reserve: medianCost(rounds, 'reserve'),
  commit: medianCost(rounds, 'commit'),
  denied: medianCost(rounds, 'denied'),
});

/**
 * A growing ledger, measured at each size in turn with a ledger that stays small. The machine's speed drifts meanwhile, so the figure of
 * a size is its ratio to the small ledger in the same rounds, times the small ledger's cost over all rounds.
 */
class Growing {
  /** @type {{ size: number, ratios: Record<'reserve' | 'commit', number>[], small: Record<Kind, number>[] }[]} */
  sizes = [];

  /** @param {Population} small */
  constructor(small) {
    this.small = small;
  }

  /**
   * @param {number} size
   * @param {Population} population
   */
  async measure(size, population) {
    const [grown = [], small = []] = await roundsOf([population, this.small], ['reserve', 'commit'], PLAN);
    const ratios = grown.map(({ reserve, commit }, round) => ({
      reserve: reserve / (small[round]?.reserve ?? NaN),
      commit: commit / (small[round]?.commit ?? NaN),
    }));
    this.sizes.push({ size, ratios, small });
  }

  /** @returns {Cost[]} */
  costs() {
    const small = this.sizes.flatMap((one) => one.small);
    const usual = (/** @type {'reserve' | 'commit'} */ kind) =>
      medianOfAny(small.map((costs) => costs[kind]));
    const scaled = (
      /** @type {(typeof this.sizes)[number]} */ { ratios },
      /** @type {'reserve' | 'commit'} */ kind,
    ) => median(ratios.map((ratio) => ratio[kind])) * usual(kind);
    return this.sizes.map((one) => ({
      size: one.size,
      reserve: scaled(one, 'reserve'),
      commit: scaled(one, 'commit'),
      denied: NaN,
    }));
  }
}

/** @param {readonly number[]} values */
const medianOfAny = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;

/**
 * @param {number} most live reservations
 * @returns {Promise<{ curves: Curve[], store: string }>}
 */
export function byLiveReservations(most) {
  return GrowthLedger.with((ledger) =>
    GrowthLedger.with(async (reference) => {
      const { population: small } = await reference.provision('small');
      await reference.fill(small, FEW);
      const { population, apiKey } = await ledger.provision('large');
      const growing = new Growing(small);
      const sizes = LIVE.filter((size) => size <= most);
      const bytes = [];
      const queries = [];
      for (const size of sizes) {
        say(`${whole(size)} live reservations`);
        const before = await usedMemory(ledger.redis);
        const former = population.live.length;
        await ledger.fill(population, size);
        bytes.push(((await usedMemory(ledger.redis)) - before) / (size - former));
        // Counted before the calls, because the reservations that they end leave records as well.
        queries.push(await queryCosts(population, apiKey, QUERIES));
        await growing.measure(size, population);
      }
      const curves = liveCurves({
        sizes,
        costs: growing.costs(),
        bytes,
        queries,
      });
      return { curves, store: await storeOf(ledger.redis) };
    }),
  );
}

/**
 * @param {{
 *   sizes: number[],
 *   costs: Cost[],
 *   bytes: number[],
 *   queries: Awaited<ReturnType<typeof queryCosts>>[],
 * }} measured
 * @returns {Curve[]}
 */
function liveCurves({ sizes, costs, bytes, queries }) {
  const sortable = queries.filter(({ sorted }) => !Number.isNaN(sorted));
  const xOf = (/** @type {typeof queries} */ some) => some.map(({ records }) => records);
  const [live, ended] = ['live reservations of one tenant', 'records of one tenant'];
  const [request, record] = ['µs of Redis for each request', 'µs of Redis for each record'];
  const list = queries.map((one) => one.list);
  const history = queries.map((one) => one.history);
  const verify = queries.map((one) => one.verify);
  const sorted = sortable.map((one) => one.sorted);
  return [
    curve('live-reservations', 'Live reservations', [live, MICROSECONDS], sizes, reserveAndCommit(costs)),
    curve('live-bytes', 'Memory of live reservations', [live, 'bytes for each added one'], sizes, {
      reserve: bytes,
    }),
    curve('queries', 'Lists and histories', [ended, request], xOf(queries), {
      'list of 50': list,
      'history of one': history,
    }),
    curve('verify', 'Verify', [ended, record], xOf(queries), { verify }),
    curve('sorted-lists', 'Sorted lists', [ended, record], xOf(sortable), {
      'by amount': sorted,
    }),
  ];
}

/** @returns {Promise<Curve>} */
export function byTenants() {
  return GrowthLedger.with((ledger) =>
    GrowthLedger.with(async (reference) => {
      const small = reference.population(await reference.addTenants(['small']));
      await reference.fill(small, FEW);
      const growing = new Growing(small);
      /** @type {import('./growth-ledger.mjs').Member[]} */
      const members = [];
      for (const size of TENANTS) {
        say(`${whole(size)} tenants`);
        const names = Array.from(
          { length: size - members.length },
          (_, index) => `tenant-${members.length + index}`,
        );
        for (const member of await ledger.addTenants(names)) {
          members.push(member);
        }
        const population = ledger.population(members);
        await ledger.fill(population, FEW);
        await growing.measure(size, population);
      }
      return curve(
        'tenants',
        'Tenants',
        ['tenants, each call for a random one of them', MICROSECONDS],
        TENANTS,
        reserveAndCommit(growing.costs()),
      );
    }),
  );
}

/** @returns {Promise<Curve>} */
export function byBudgets() {
  return GrowthLedger.with(async (ledger) => {
    const sized = [];
    for (const size of BUDGETS) {
      say(`${whole(size)} budgets of a tenant`);
      const [member] = await ledger.addTenants([`budgets-${size}`]);
      if (member === undefined) {
        throw new Error('no tenant was made');
      }
      await ledger.addBudgets(
        Array.from({ length: size - 1 }, (_, index) => ({
          member,
          scope: `tenant:${member.tenant}/app:a${index}`,
        })),
      );
      const population = ledger.population([member]);
      await ledger.fill(population, FEW);
      sized.push({ size, population });
    }
    return curve(
      'budgets',
      'Budgets of a tenant',
      ['budgets of the tenant', MICROSECONDS],
      BUDGETS,
      reserveAndCommit(await costsBeside(sized)),
    );
  });
}

/** @returns {Promise<Curve>} */
export function byScopes() {
  return GrowthLedger.with(async (ledger) => {
    const sized = [];
    say('1 to 6 scopes');
    for (const size of SCOPES) {
      const population = ledger.population(await ledger.addTenants([`scopes-${size}`], size));
      await ledger.fill(population, FEW);
      sized.push({ size, population });
    }
    return curve(
      'scopes',
      'Scopes',
      ['budgeted scopes of the request', MICROSECONDS],
      SCOPES,
      reserveAndCommit(await costsBeside(sized)),
    );
  });
}

/** @returns {Promise<Curve>} */
export function bySubscriptions() {
  return GrowthLedger.with(async (ledger) => {
    await allowLocalWebhooks(ledger.service.port);
    const sized = [];
    for (const size of SUBSCRIPTIONS) {
      say(`${whole(size)} subscriptions`);
      const members = await ledger.addTenants([`webhooks-${size}`]);
      await askAsAdmin(ledger.service.port, 'PUT', `/ops/tenants/webhooks-${size}/limits`, {
        webhooks: 1000,
      });
      for (let made = 0; made < size; made += 1) {
        await askAsAdmin(ledger.service.port, 'POST', `/v1/admin/webhooks?tenant_id=webhooks-${size}`, {
          url: 'http://127.0.0.1:9/',
          event_types: ['reservation.denied'],
        });
      }
      const population = ledger.population(members);
      await ledger.fill(population, FEW);
      sized.push({ size, population });
    }
    const costs = await costsBeside(sized, ['reserve', 'commit', 'denied']);
    return curve(
      'subscriptions',
      'Subscriptions',
      ['subscriptions of the tenant to denied reserves', MICROSECONDS],
      SUBSCRIPTIONS,
      {
        ...reserveAndCommit(costs),
        'denied reserve': costs.map(({ denied }) => denied),
      },
    );
  });
}
