// Loads beside reserve and commit: batches and sets, direct debits, extensions and lists.
import { Client } from './client.mjs';
import { closedLoop, expectSuccess } from './closed-loop.mjs';
import { httpRequests } from './workload.mjs';

/**
 * @typedef {import('./types.ts').ClosedPlan} ClosedPlan
 * @typedef {import('./closed-loop.mjs').Request} Request
 * @typedef {ReturnType<typeof httpRequests>} Texts
 */

export const BATCH_PATH = '/v1/batch';
const PER_BATCH = 50;
/** Leases whose expiry is no part of a run. */
const OUTLIVING = { ttlMs: 3_600_000, graceMs: 0 };

/** @type {(first: number, count: number) => number[]} */
const numbersFrom = (first, count) => Array.from({ length: count }, (_, index) => first + index);

/** @type {(operations: string[]) => string} */
const batchText = (operations) => `{"operations":[${operations.join(',')}]}`;

/**
 * A batch of reserves.
 * @param {Texts} texts
 * @param {number} first
 * @param {number} count
 */
export const reservesText = (texts, first, count) =>
  batchText(numbersFrom(first, count).map((number) => `{"op":"reserve","body":${texts.reserve(number)}}`));

/**
 * The batch that settles them.
 * @param {Texts} texts
 * @param {number} first
 * @param {readonly string[]} ids
 */
export const commitsText = (texts, first, ids) =>
  batchText(
    ids.map((id, index) => `{"op":"commit","reservation_id":"${id}","body":${texts.commit(first + index)}}`),
  );

/**
 * The ids of as many reservations as were asked for.
 * @param {number} status
 * @param {string} body
 * @param {number} count
 */
export function idsIn(status, body, count) {
  expectSuccess(status, body);
  const ids = [...body.matchAll(/"reservation_id":"([^"]+)"/g)].map(([, id = '']) => id);
  if (ids.length !== count) {
    throw new Error(`${ids.length} of ${count} reserves were granted: ${body}`);
  }
  return ids;
}

/**
 * @param {number} status
 * @param {string} body
 * @param {number} count
 */
export function expectCommits(status, body, count) {
  expectSuccess(status, body);
  const committed = body.split('"status":"COMMITTED"').length - 1;
  if (committed !== count) {
    throw new Error(`${committed} of ${count} commits were made: ${body}`);
  }
}

/**
 * As the closed loop of single requests: each connection sends a batch of reserves, then one of their commits. An operation is both.
 * @param {ClosedPlan} plan
 */
export async function saturateBatches(plan) {
  const { target, perRequest = 1 } = plan;
  const texts = httpRequests(target);
  let [next, operations] = [plan.first, 0];
  /** @typedef {{ first: number, ids: string[] }} Context */
  const result = await closedLoop(
    plan,
    [
      {
        path: BATCH_PATH,
        setupRequest: (request, context) => {
          const first = next;
          next += perRequest;
          Object.assign(context, { first });
          return { ...request, body: reservesText(texts, first, perRequest) };
        },
        onResponse: (status, body, context) => {
          Object.assign(context, { ids: idsIn(status, body, perRequest) });
        },
      },
      {
        path: BATCH_PATH,
        setupRequest: (request, context) => {
          const { first, ids } = /** @type {Context} */ (context);
          return { ...request, body: commitsText(texts, first, ids) };
        },
        onResponse: (status, body) => {
          expectCommits(status, body, perRequest);
          operations += perRequest;
        },
      },
    ],
    target,
  );
  return { ...result, operations, per_second: operations / result.elapsed_s, next };
}

/**
 * One request after the other on each connection, each of `perRequest` operations.
 * @param {ClosedPlan} plan
 * @param {string | ((first: number) => string)} path
 * @param {(first: number) => string} bodyOf
 * @param {(status: number, body: string) => void} expectDone
 */
async function repeat(plan, path, bodyOf, expectDone) {
  const { perRequest = 1 } = plan;
  let [next, operations] = [plan.first, 0];
  const result = await closedLoop(
    plan,
    [
      {
        setupRequest: (request) => {
          const first = next;
          next += perRequest;
          return {
            ...request,
            path: typeof path === 'string' ? path : path(first),
            body: bodyOf(first),
          };
        },
        onResponse: (status, body) => {
          expectDone(status, body);
          operations += perRequest;
        },
      },
    ],
    plan.target,
  );
  return { ...result, operations, per_second: operations / result.elapsed_s, next };
}

/**
 * Longer leases of as many live reservations as there are connections.
 * @param {ClosedPlan} plan
 */
export async function extensions(plan) {
  const { extend, ids } = await liveReservations(plan, plan.connections);
  const path = (/** @type {number} */ number) => `/v1/reservations/${ids[number % ids.length]}/extend`;
  return repeat({ ...plan, first: plan.first + ids.length }, path, extend, expectSuccess);
}

const LISTED = 100;

/**
 * The newest hundred reservations, over and over.
 * @param {ClosedPlan} plan
 */
export async function lists(plan) {
  await liveReservations(plan, LISTED);
  const first = plan.first + LISTED;
  const result = await closedLoop(
    plan,
    [{ method: 'GET', path: `/v1/reservations?limit=${LISTED}`, onResponse: expectSuccess }],
    plan.target,
  );
  const { requests: operations } = result;
  return { ...result, operations, per_second: operations / result.elapsed_s, next: first };
}

/**
 * @param {ClosedPlan} plan
 * @param {number} count at most 1000
 */
async function liveReservations({ port, target, first }, count) {
  const texts = httpRequests(target, OUTLIVING);
  const client = new Client(port, { connections: 1, headers: { 'x-cycles-api-key': target.apiKey } });
  const ids = [];
  for (let made = 0; made < count; made += PER_BATCH) {
    const some = Math.min(PER_BATCH, count - made);
    const { status, text } = await client.ask('POST', BATCH_PATH, reservesText(texts, first + made, some));
    ids.push(...idsIn(status, text, some));
  }
  await client.close();
  return { ids, ...texts };
}

/** @param {ClosedPlan} plan */
export function debits(plan) {
  const { debit } = httpRequests(plan.target);
  return repeat(plan, '/v1/events', debit, (status, body) => {
    if (status !== 201) {
      throw new Error(`got ${status} ${body}`);
    }
  });
}

/**
 * Reserves that nobody settles: of a set, or single ones.
 * @param {ClosedPlan} plan
 */
export function sets(plan) {
  const { perRequest = 1 } = plan;
  const { reserve, reservePath } = httpRequests(plan.target, OUTLIVING);
  return perRequest === 1
    ? repeat(plan, reservePath, reserve, expectSuccess)
    : repeat(
        plan,
        '/v1/reservation-sets',
        (first) => `{"reservations":[${numbersFrom(first, perRequest).map(reserve).join(',')}]}`,
        expectSuccess,
      );
}
