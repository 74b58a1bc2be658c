// Clients of a saturated budget that wait for funds, compared with clients that retry: requests per round,
// and how evenly they are served.
import { Agent, request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { unlessShort } from './duration.mjs';
import { figure, median, quantile, range, say, storeOf, tenths, whole } from './report.mjs';
import { adminHeaders, askAsAdmin, startService } from './service.mjs';

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
 * @typedef {{ tenant: string, key: string, port: number }} Budget
 * @typedef {{ rounds: number, requests: number, seconds: number, waits: number[], refused: number }} Outcome
 */

const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS });

/** @returns {Promise<import('./types.ts').Result>} */
export async function measure() {
  const service = await startService({ HOLDFAST_WORKERS: '2' });
  const redis = new Redis({ path: service.socket, maxRetriesPerRequest: 1, retryStrategy: () => null });
  redis.on('error', () => undefined);
  try {
    say(`${CLIENTS} clients that wait, ${whole(ROUNDS)} rounds`);
    const waiting = await play(await budgetOf(service.port, 'waiting'), true);
    const wakeUps = await wakeUpsOf(service.port);
    say(`${CLIENTS} clients that retry`);
    const retrying = await play(await budgetOf(service.port, 'retrying'), false);
    return resultOf(waiting, retrying, wakeUps, await storeOf(redis));
  } finally {
    redis.disconnect();
    agent.destroy();
    await service.stop();
  }
}

/**
 * @param {number} port
 * @param {string} tenant
 * @returns {Promise<Budget>}
 */
async function budgetOf(port, tenant) {
  await askAsAdmin(port, 'POST', '/v1/admin/tenants', { tenant_id: tenant, name: tenant });
  await askAsAdmin(port, 'POST', '/v1/admin/budgets', {
    tenant_id: tenant,
    scope: `tenant:${tenant}`,
    unit: 'TOKENS',
    allocated: { unit: 'TOKENS', amount: SHARES },
  });
  const key = await askAsAdmin(port, 'POST', '/v1/admin/api-keys', { tenant_id: tenant, name: 'bench' });
  return { tenant, key: String(key.key_secret), port };
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
        await playRound(budget, waits, next, outcome);
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
 * @param {boolean} waits
 * @param {number} number
 * @param {Outcome} outcome
 */
async function playRound(budget, waits, number, outcome) {
  const body = {
    idempotency_key: `round-${number}`,
    subject: { tenant: budget.tenant },
    action: { kind: 'bench', name: 'waits' },
    estimate: { unit: 'TOKENS', amount: AMOUNTS[number % AMOUNTS.length] },
  };
  const began = performance.now();
  for (;;) {
    outcome.requests += 1;
    const { status, text } = await ask(budget, '/v1/reservations', body, waits);
    if (status === 200) {
      outcome.waits.push(performance.now() - began);
      const id = /"reservation_id":"([^"]+)"/.exec(text)?.[1] ?? '';
      await delay(WORK_MS);
      const actual = { unit: 'TOKENS', amount: 0 };
      const commit = await ask(budget, `/v1/reservations/${id}/commit`, {
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
 * @param {Budget} budget
 * @param {string} path
 * @param {object} body
 * @param {boolean} [waits]
 * @returns {Promise<{ status: number, text: string }>}
 */
function ask({ port, key }, path, body, waits = false) {
  return new Promise((done, fail) => {
    const sent = request({
      port,
      path,
      agent,
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'x-cycles-api-key': key,
        ...(waits ? { 'x-holdfast-wait-ms': String(WAIT_MS) } : {}),
      },
    });
    sent.on('error', fail);
    sent.on('response', (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (/** @type {string} */ part) => (text += part));
      response.on('error', fail).on('end', () => done({ status: response.statusCode ?? 0, text }));
    });
    sent.end(JSON.stringify(body));
  });
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
 * @returns {import('./types.ts').Result}
 */
function resultOf(waiting, retrying, wakeUps, store) {
  const [spreads, others] = [spreadsOf(waiting), spreadsOf(retrying)];
  const spread = median(spreads);
  const [perRound, perRetried] = [waiting, retrying].map(({ requests, rounds }) => requests / rounds);
  const fewer = (perRetried ?? NaN) / (perRound ?? NaN);
  return {
    title: 'Waiting for funds',
    command: 'npm run bench -- waits',
    subject: `${CLIENTS} clients of a budget that serves about ten at a time, at two workers.`,
    store,
    tables: [
      {
        head: ['clients', 'rounds', 'rounds a second', 'reserves a round', 'p50 ms', 'p99 ms', 'max ms'],
        rows: [rowOf('that wait', waiting), rowOf('that retry', retrying)],
        texts: 1,
      },
    ],
    figures: [
      figure(
        'rounds with a lost wake-up or a refusal',
        whole(wakeUps.renewal + waiting.refused),
        '0',
        wakeUps.renewal + waiting.refused === 0,
      ),
      figure(
        'longest wait against the median, of 1,000 rounds in a row',
        `${tenths(spread)}${range(spreads, tenths)}`,
        `≤ ${TARGET_SPREAD}`,
        spread <= TARGET_SPREAD,
      ),
      figure(
        'the same where clients retry',
        `${tenths(median(others))}${range(others, tenths)}`,
        '',
        undefined,
      ),
      figure(
        'fewer reserves for a round than with retries',
        `${tenths(fewer)} times`,
        `≥ ${TARGET_REQUESTS}`,
        fewer >= TARGET_REQUESTS,
      ),
      figure('wake-ups for a round', tenths(wakeUps.freed / waiting.rounds), '', undefined),
    ],
    notes: [],
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

/**
 * @param {string} name
 * @param {Outcome} outcome
 */
function rowOf(name, { rounds, requests, seconds, waits }) {
  const sorted = [...waits].sort((a, b) => a - b);
  return [
    name,
    whole(rounds),
    whole(rounds / seconds),
    tenths(requests / rounds),
    ...[0.5, 0.99, 1].map((share) => tenths(quantile(sorted, share))),
  ];
}
