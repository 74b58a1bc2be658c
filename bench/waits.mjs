// Clients of a saturated budget that wait for funds, compared with clients that retry: requests per round,
// and how evenly they are served.
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from './client.mjs';
import { unlessShort } from './duration.mjs';
import { Harness } from './harness.mjs';
import { aim, quantile, say, storeOf, tableOf, tenths, whole } from './report.mjs';
import { adminHeaders, askAsAdmin, tenantWithBudget } from './service.mjs';

const CLIENTS = 200;
const ROUNDS = unlessShort(100_000, 1000);
const RETRYING_MS = unlessShort(20_000, 2000);
const WAIT_MS = 30_000;
const RETRY_MS = 20;
const WORK_MS = 10;
/** The share of the budget that a reserve takes; two on average, so ten rounds are in flight at once. */
const SHARES = 20;
const AMOUNTS = [1, 2, 3];
/**
 * The number of consecutive rounds that are compared with each other, because the speed of a shared machine
 * drifts.
 */
const WINDOW = 1000;
const TARGET_SPREAD = 2;
const TARGET_REQUESTS = 10;

/**
 * @typedef {{ tenant: string, client: Client, port: number }} Budget
 * @typedef {{ rounds: number, requests: number, seconds: number, waits: number[], refused: number }} Outcome
 */

/** @returns {Promise<import('./types.ts').Measured>} */
export const measure = () =>
  Harness.with({ settings: { HOLDFAST_WORKERS: '2' } }, async (harness) => {
    say(`${CLIENTS} clients that wait, ${whole(ROUNDS)} rounds`);
    const waiting = await play(await budgetOf(harness, 'waiting'), true);
    const wakeUps = await wakeUpsOf(harness.service.port);
    say(`${CLIENTS} clients that retry`);
    const retrying = await play(await budgetOf(harness, 'retrying'), false);
    return resultOf(waiting, retrying, wakeUps, await storeOf(harness.redis));
  });

/**
 * @param {Harness} harness
 * @param {string} tenant
 * @returns {Promise<Budget>}
 */
async function budgetOf(harness, tenant) {
  const { port } = harness.service;
  const apiKey = await tenantWithBudget(port, tenant, SHARES);
  const headers = {
    'x-cycles-api-key': apiKey,
    ...(tenant === 'waiting' ? { 'x-holdfast-wait-ms': String(WAIT_MS) } : {}),
  };
  const client = new Client(port, { connections: CLIENTS, headers });
  return { tenant, port, client: harness.use(client, (one) => one.close()) };
}

/**
 * Runs all clients until the rounds or the time are over. Fails if the budget's figures then differ from those at the start.
 * @param {Budget} budget
 * @param {boolean} waits
 * @returns {Promise<Outcome>}
 */
async function play(budget, waits) {
  /** @type {Outcome} */
  const outcome = { rounds: 0, requests: 0, seconds: 0, waits: [], refused: 0 };
  const began = performance.now();
  let next = 0;
  const goesOn = () => (waits ? next < ROUNDS : performance.now() - began < RETRYING_MS);
  await Promise.all(
    Array.from({ length: CLIENTS }, async () => {
      while (goesOn()) {
        next += 1;
        await playRound(budget, next, outcome);
      }
    }),
  );
  outcome.seconds = (performance.now() - began) / 1000;
  const ledger = await askAsAdmin(budget.port, 'GET', `/v1/admin/budgets?tenant_id=${budget.tenant}`);
  const text = JSON.stringify(ledger);
  if (!text.includes(`"remaining":{"unit":"TOKENS","amount":${SHARES}}`)) {
    throw new Error(`the budget does not add up: ${text}`);
  }
  return outcome;
}

/**
 * @param {Budget} budget
 * @param {number} number
 * @param {Outcome} outcome
 */
async function playRound(budget, number, outcome) {
  const body = {
    idempotency_key: `round-${number}`,
    subject: { tenant: budget.tenant },
    action: { kind: 'bench', name: 'waits' },
    estimate: { unit: 'TOKENS', amount: AMOUNTS[number % AMOUNTS.length] },
  };
  const began = performance.now();
  for (;;) {
    outcome.requests += 1;
    const { status, text } = await budget.client.post('/v1/reservations', body);
    if (status === 200) {
      outcome.waits.push(performance.now() - began);
      const id = /"reservation_id":"([^"]+)"/.exec(text)?.[1] ?? '';
      await delay(WORK_MS);
      const actual = { unit: 'TOKENS', amount: 0 };
      const commit = await budget.client.post(`/v1/reservations/${id}/commit`, {
        idempotency_key: `round-${number}`,
        actual,
      });
      if (commit.status !== 200) {
        throw new Error(`a commit was answered ${commit.status} ${commit.text}`);
      }
      outcome.rounds += 1;
      return;
    }
    if (status !== 409) {
      throw new Error(`a reserve was answered ${status} ${text}`);
    }
    outcome.refused += 1;
    await delay(RETRY_MS);
  }
}

/**
 * How often waiters were woken by a message, and how often only the renewal of their places found their turn.
 * @param {number} port
 */
async function wakeUpsOf(port) {
  const response = await fetch(`http://127.0.0.1:${port}/metrics`, { headers: adminHeaders });
  const text = await response.text();
  const count = (/** @type {string} */ by) =>
    Number(
      new RegExp(`^holdfast_reserve_wake_ups_total\\{[^}]*by="${by}"[^}]*\\} (\\S+)`, 'm').exec(text)?.[1] ??
        0,
    );
  return { freed: count('freed'), renewal: count('renewal') };
}

/**
 * @param {Outcome} waiting
 * @param {Outcome} retrying
 * @param {{ freed: number, renewal: number }} wakeUps
 * @param {string} store
 * @returns {import('./types.ts').Measured}
 */
function resultOf(waiting, retrying, wakeUps, store) {
  const perRound = (/** @type {Outcome} */ { requests, rounds }) => requests / rounds;
  /** @type {(outcome: Outcome, share: number) => string} */
  const waitOf = ({ waits }, share) =>
    tenths(
      quantile(
        [...waits].sort((a, b) => a - b),
        share,
      ),
    );
  /** @type {Record<string, (outcome: Outcome) => string>} */
  const columns = {
    clients: (outcome) => (outcome === waiting ? 'that wait' : 'that retry'),
    rounds: ({ rounds }) => whole(rounds),
    'rounds a second': ({ rounds, seconds }) => whole(rounds / seconds),
    'reserves a round': (outcome) => tenths(perRound(outcome)),
    'p50 ms': (outcome) => waitOf(outcome, 0.5),
    'p99 ms': (outcome) => waitOf(outcome, 0.99),
    'max ms': (outcome) => waitOf(outcome, 1),
  };
  return {
    title: 'Waiting for funds',
    command: 'npm run bench -- waits',
    subject: `${CLIENTS} clients of a budget that serves about ten at a time, at two workers.`,
    store,
    tables: [tableOf([waiting, retrying], columns, 1)],
    figures: [
      aim('rounds with a lost wake-up or a refusal', wakeUps.renewal + waiting.refused, { atMost: 0 }),
      aim('longest wait against the median, of 1,000 rounds in a row', spreadsOf(waiting), {
        text: tenths,
        atMost: TARGET_SPREAD,
      }),
      aim('the same where clients retry', spreadsOf(retrying), { text: tenths }),
      aim('fewer reserves for a round than with retries', perRound(retrying) / perRound(waiting), {
        text: tenths,
        unit: ' times',
        atLeast: TARGET_REQUESTS,
      }),
      aim('wake-ups for a round', wakeUps.freed / waiting.rounds, { text: tenths }),
    ],
  };
}

/**
 * The ratio of the longest wait to the median one, in each window. An odd number of windows, so that there is a median.
 * @param {Outcome} outcome
 */
function spreadsOf({ waits }) {
  const windows = Math.max(1, Math.floor(waits.length / WINDOW));
  return Array.from({ length: windows - ((windows + 1) % 2) }, (_, index) => {
    const sorted = waits.slice(index * WINDOW, (index + 1) * WINDOW).sort((a, b) => a - b);
    return quantile(sorted, 1) / quantile(sorted, 0.5);
  });
}
