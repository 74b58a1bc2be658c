// The loads in closed loops: reserve and commit, direct debits, reserves alone, extensions, lists and attacks.
import { setPriority } from 'node:os';
import { Client } from './client.mjs';
import { closedLoop, expectSuccess, reservationIdIn } from './closed-loop.mjs';
import { RESERVE_PATH, httpRequests } from './workload.mjs';

/**
 * @typedef {import('./types.ts').ClosedPlan} ClosedPlan
 * @typedef {import('./closed-loop.mjs').Request} Request
 * @typedef {ReturnType<typeof httpRequests>} Texts
 */

const BATCH_PATH = '/v1/batch';
const PER_BATCH = 50;
/** Leases whose expiry is no part of a run. */
const OUTLIVING_MS = 3_600_000;

/** @type {(first: number, count: number) => number[]} */
const numbersFrom = (first, count) => Array.from({ length: count }, (_, index) => first + index);

/**
 * A batch of as many reserves, and the batch that settles them.
 * @param {Texts} texts
 * @param {number} size
 */
function batchesOf(texts, size) {
  const batch = (/** @type {string[]} */ operations) => ({
    path: BATCH_PATH,
    body: `{"operations":[${operations.join(',')}]}`,
  });
  return {
    size,
    reserve: (/** @type {number} */ first) =>
      batch(numbersFrom(first, size).map((number) => `{"op":"reserve","body":${texts.reserve(number)}}`)),
    idsIn: (/** @type {number} */ status, /** @type {string} */ body) => {
      expectSuccess(status, body);
      const ids = [...body.matchAll(/"reservation_id":"([^"]+)"/g)].map(([, id = '']) => id);
      if (ids.length !== size) {
        throw new Error(`${ids.length} of ${size} reserves were granted: ${body}`);
      }
      return ids;
    },
    commit: (/** @type {number} */ first, /** @type {readonly string[]} */ ids) =>
      batch(
        ids.map(
          (id, index) => `{"op":"commit","reservation_id":"${id}","body":${texts.commit(first + index)}}`,
        ),
      ),
    expectCommits: (/** @type {number} */ status, /** @type {string} */ body) => {
      expectSuccess(status, body);
      const committed = body.split('"status":"COMMITTED"').length - 1;
      if (committed !== size) {
        throw new Error(`${committed} of ${size} commits were made: ${body}`);
      }
    },
  };
}

/**
 * The two requests of an operation, a reserve and its commit, or of so many operations in batches.
 * @param {Pick<ClosedPlan, 'target' | 'perRequest'>} plan
 * @returns {ReturnType<typeof batchesOf>}
 */
export function pairOf({ target, perRequest }) {
  const texts = httpRequests(target);
  if (perRequest !== undefined) {
    return batchesOf(texts, perRequest);
  }
  return {
    size: 1,
    reserve: (number) => ({ path: RESERVE_PATH, body: texts.reserve(number) }),
    idsIn: (status, body) => {
      expectSuccess(status, body);
      return [reservationIdIn(body)];
    },
    commit: (number, [id = '']) => ({ path: texts.commitPath(id), body: texts.commit(number) }),
    expectCommits: expectSuccess,
  };
}

/**
 * A closed loop, and how many operations it has done.
 * @param {ClosedPlan} plan
 * @param {number} size of a request, in operations
 * @param {(takeNumber: () => number, done: () => void) => Request[]} requestsOf
 */
async function counted(plan, size, requestsOf) {
  let [next, operations] = [plan.first, 0];
  const takeNumber = () => {
    next += size;
    return next - size;
  };
  const requests = requestsOf(takeNumber, () => {
    operations += size;
  });
  const result = await closedLoop(plan, requests, plan.target);
  return { ...result, operations, per_second: operations / result.elapsed_s, next };
}

/** @param {ClosedPlan} plan */
export function saturate(plan) {
  const { size, reserve, idsIn, commit, expectCommits } = pairOf(plan);
  /** @typedef {{ first: number, ids: string[] }} Context */
  return counted(plan, size, (takeNumber, done) => [
    {
      setupRequest: (request, context) => {
        const first = takeNumber();
        Object.assign(context, { first });
        return { ...request, ...reserve(first) };
      },
      onResponse: (status, body, context) => {
        Object.assign(context, { ids: idsIn(status, body) });
      },
    },
    {
      setupRequest: (request, context) => {
        const { first, ids } = /** @type {Context} */ (context);
        return { ...request, ...commit(first, ids) };
      },
      onResponse: (status, body) => {
        expectCommits(status, body);
        done();
      },
    },
  ]);
}

/**
 * One request after the other on each connection, each of `perRequest` operations.
 * @param {ClosedPlan} plan
 * @param {(first: number) => Request} requestOf
 * @param {(status: number, body: string) => void} [expectDone]
 */
const repeat = (plan, requestOf, expectDone = expectSuccess) =>
  counted(plan, plan.perRequest ?? 1, (takeNumber, done) => [
    {
      setupRequest: (request) => ({ ...request, ...requestOf(takeNumber()) }),
      onResponse: (status, body) => {
        expectDone(status, body);
        done();
      },
    },
  ]);

/**
 * Longer leases of as many live reservations as there are connections.
 * @param {ClosedPlan} plan
 */
export async function extensions(plan) {
  const { extend, ids } = await liveReservations(plan, plan.connections);
  return repeat({ ...plan, first: plan.first + ids.length }, (number) => ({
    path: `/v1/reservations/${ids[number % ids.length]}/extend`,
    body: extend(number),
  }));
}

const LISTED = 100;

/**
 * The newest hundred reservations, over and over.
 * @param {ClosedPlan} plan
 */
export async function lists(plan) {
  await liveReservations(plan, LISTED);
  const request = /** @type {const} */ ({ method: 'GET', path: `/v1/reservations?limit=${LISTED}` });
  return repeat({ ...plan, first: plan.first + LISTED }, () => request);
}

/**
 * @param {ClosedPlan} plan
 * @param {number} count at most 1000
 */
async function liveReservations({ port, target, first }, count) {
  const texts = httpRequests(target, { ttlMs: OUTLIVING_MS, graceMs: 0 });
  const client = new Client(port, { connections: 1, headers: { 'x-cycles-api-key': target.apiKey } });
  const ids = [];
  for (let made = 0; made < count; made += PER_BATCH) {
    const { reserve, idsIn } = batchesOf(texts, Math.min(PER_BATCH, count - made));
    const { path, body } = reserve(first + made);
    const { status, text } = await client.ask('POST', path, body);
    ids.push(...idsIn(status, text));
  }
  await client.close();
  return { ids, ...texts };
}

/** @param {ClosedPlan} plan */
export function debits(plan) {
  const { debit } = httpRequests(plan.target);
  const requestOf = (/** @type {number} */ number) => ({ path: '/v1/events', body: debit(number) });
  return repeat(plan, requestOf, (status, body) => {
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
  const { perRequest = 1, targets = [plan.target], ttlMs = OUTLIVING_MS } = plan;
  const texts = targets.map((target) => ({
    ...httpRequests(target, { ttlMs, graceMs: 0 }),
    headers: { 'content-type': 'application/json', 'x-cycles-api-key': target.apiKey },
  }));
  return repeat(plan, (first) => {
    const { reserve, headers } = /** @type {(typeof texts)[number]} */ (texts[first % texts.length]);
    return perRequest === 1
      ? { path: RESERVE_PATH, headers, body: reserve(first) }
      : {
          path: '/v1/reservation-sets',
          headers,
          body: `{"reservations":[${numbersFrom(first, perRequest).map(reserve).join(',')}]}`,
        };
  });
}

/**
 * A tenant at full load. In reality this would be another machine. Here the service must not wait for a processor because the attack uses it.
 * @param {import('./types.ts').AttackPlan} plan
 */
export async function attack(plan) {
  setPriority(10);
  const result = await closedLoop(
    plan,
    plan.requests.map(({ body, ...request }) => ({
      .../** @type {Request} */ (request),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })),
  );
  const operations = result.requests;
  return { ...result, operations, per_second: operations / result.elapsed_s, next: 0 };
}
