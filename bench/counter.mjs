// Compares spend counters in Redis with Holdfast under concurrency, crashes and retries. Each gets the same clients and a budget of the
// same size.
import { setTimeout as delay } from 'node:timers/promises';
import { parseJson } from '../scripts/install.mjs';
import { Client } from './client.mjs';
import { SHORT } from './duration.mjs';
import { Harness } from './harness.mjs';
import { figure, say, storeOf, tableOf, whole } from './report.mjs';
import { provision } from './service.mjs';

/**
 * @typedef {import('ioredis').Redis} Redis
 *
 * One way to keep a budget. `admit` resolves with something truthy, such as the reservation's id, when a job may be done.
 * @typedef {object} Way
 * @property {string} name
 * @property {(job: number) => Promise<string | boolean>} admit
 * @property {(job: number, place: string | boolean) => Promise<unknown>} settle
 * @property {() => Promise<number>} left
 *
 * @typedef {{ crashed: number, lost: number }} Faults  of 100
 * @typedef {{ scenario: string, way: string, used: number, left: number }} Row
 */

const CLIENTS = 64;
const BUDGET = SHORT ? 100_000 : 1_000_000;
const ESTIMATE = 1000;
const ACTUAL = 600;
/** Of 100 jobs, those whose client crashes before it settles; of 100 calls, those that are repeated because their reply was lost. */
const FAULT_PERCENT = 5;
const SCENARIOS = [
  { name: 'nothing fails', crashed: 0, lost: 0 },
  { name: `${FAULT_PERCENT} % of the clients crash`, crashed: FAULT_PERCENT, lost: 0 },
  { name: `${FAULT_PERCENT} % of the replies are lost`, crashed: 0, lost: FAULT_PERCENT },
];
const WORK_MS = 10;
/** The shortest TTL. After it, what a crashed client reserved is returned. */
const TTL_MS = 1000;
/** A budget is exhausted if all requests have been refused for this long. */
const REFUSED_MS = 3 * TTL_MS;
const TIMEOUT_MS = 60_000;

/** @returns {Promise<import('./types.ts').Measured>} */
export const measure = () =>
  Harness.with({}, async (harness) => {
    const { redis } = harness;
    /** @type {Row[]} */
    const rows = [];
    for (const [index, scenario] of SCENARIOS.entries()) {
      const ways = [
        checkThenAdd(redis, index),
        await reserveOnCounter(redis, index),
        await holdfast(harness, `counter-${index}`),
      ];
      for (const way of ways) {
        say(`${way.name}: ${scenario.name}`);
        rows.push({ scenario: scenario.name, way: way.name, ...(await spend(way, scenario)) });
      }
    }
    const ours = rows.filter(({ way }) => way === 'Holdfast');
    return {
      title: 'Beside a counter',
      subject: `${CLIENTS} clients spend a budget of ${whole(BUDGET)} until it is refused to all: each call asks for ${whole(ESTIMATE)} and uses ${ACTUAL}. The error is what the books charged for nothing.`,
      store: await storeOf(redis),
      tables: [tableOf(rows, COLUMNS, 2)],
      figures: [
        figure(
          'used of the budget, each scenario',
          ours.map(({ used }) => percent(used)).join(', '),
          `${percent(BUDGET - ESTIMATE)} to 100 %`,
          ours.every(({ used }) => used <= BUDGET && used >= BUDGET - ESTIMATE),
        ),
        figure(
          'error of the ledger, each scenario',
          ours.map((row) => percent(Math.abs(errorOf(row)))).join(', '),
          '0 %',
          ours.every((row) => errorOf(row) === 0),
        ),
      ],
    };
  });

/**
 * The usual budget check: compare before the work, add after it.
 * @param {Redis} redis
 * @param {number} run
 * @returns {Way}
 */
function checkThenAdd(redis, run) {
  const key = `{bench}spent-${run}`;
  return {
    name: 'check, then add',
    admit: async () => Number(await redis.get(key)) + ESTIMATE <= BUDGET,
    settle: () => redis.incrby(key, ACTUAL),
    left: async () => BUDGET - Number(await redis.get(key)),
  };
}

/**
 * The better counter: add the estimate before the work, and subtract the unused part after it.
 * @param {Redis} redis
 * @param {number} run
 * @returns {Promise<Way>}
 */
async function reserveOnCounter(redis, run) {
  const key = `{bench}left-${run}`;
  await redis.set(key, BUDGET);
  return {
    name: 'reserve on the counter',
    admit: async () => {
      if ((await redis.decrby(key, ESTIMATE)) >= 0) {
        return true;
      }
      await redis.incrby(key, ESTIMATE);
      return false;
    },
    settle: () => redis.incrby(key, ESTIMATE - ACTUAL),
    left: async () => Number(await redis.get(key)),
  };
}

/**
 * @param {Harness} harness
 * @param {string} tenant
 * @returns {Promise<Way>}
 */
async function holdfast(harness, tenant) {
  const amount = (/** @type {number} */ value) => ({ unit: 'TOKENS', amount: value });
  const { port } = harness.service;
  const { apiKey } = await provision(port, tenant, BUDGET, ['']);
  const headers = { 'x-cycles-api-key': apiKey };
  const client = harness.use(new Client(port, { connections: CLIENTS, headers }), (one) => one.close());
  return {
    name: 'Holdfast',
    admit: async (job) => {
      const { status, text } = await client.post('/v1/reservations', {
        idempotency_key: `job-${job}`,
        subject: { tenant },
        action: { kind: 'bench', name: 'counter' },
        estimate: amount(ESTIMATE),
        ttl_ms: TTL_MS,
        grace_period_ms: 0,
      });
      return status === 200 && /** @type {{ reservation_id: string }} */ (parseJson(text)).reservation_id;
    },
    settle: (job, reservation) =>
      client.post(`/v1/reservations/${String(reservation)}/commit`, {
        idempotency_key: `settle-${job}`,
        actual: amount(ACTUAL),
      }),
    left: async () => {
      const { text } = await client.ask('GET', `/v1/balances?tenant=${tenant}`);
      const { balances } = /** @type {{ balances: { remaining: { amount: number } }[] }} */ (parseJson(text));
      return balances[0]?.remaining.amount ?? NaN;
    },
  };
}

/**
 * Lets the clients work until nobody has been admitted for a while. Resolves with what was really used, and what is left by the books.
 * @param {Way} way
 * @param {Faults} faults
 */
async function spend({ admit, settle, left }, { crashed, lost }) {
  const deadline = performance.now() + TIMEOUT_MS;
  let [jobs, used, lastAdmitted] = [0, 0, performance.now()];
  // The same pseudo-random sequence for each, apart from the order of the clients.
  /** @type {(job: number, percent: number, salt: number) => boolean} */
  const happens = (job, percent, salt) => (job * 7919 + salt * 104_729) % 100 < percent;
  const client = async () => {
    while (performance.now() - lastAdmitted < REFUSED_MS && performance.now() < deadline) {
      const job = (jobs += 1);
      let place = await admit(job);
      if (happens(job, lost, 1)) {
        place = await admit(job);
      }
      if (!place) {
        await delay(WORK_MS);
        continue;
      }
      lastAdmitted = performance.now();
      await delay(WORK_MS);
      if (happens(job, crashed, 2)) {
        continue;
      }
      used += ACTUAL;
      await settle(job, place);
      if (happens(job, lost, 3)) {
        await settle(job, place);
      }
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  return { used, left: await left() };
}

const percent = (/** @type {number} */ amount) => `${((100 * amount) / BUDGET).toFixed(1)} %`;

const errorOf = (/** @type {Row} */ { used, left }) => BUDGET - used - left;

/** @type {Record<string, (row: Row) => string>} */
const COLUMNS = {
  scenario: ({ scenario }) => scenario,
  way: ({ way }) => way,
  'really used': ({ used }) => whole(used),
  'of the budget': ({ used }) => percent(used),
  'error of the books': (row) => percent(errorOf(row)),
};
