// The sweeper and the dispatcher at saturation: 200 connections make holds of 2 s as fast as the service answers, and nobody settles them.
import { setTimeout as delay } from 'node:timers/promises';
import { unlessShort, until } from './duration.mjs';
import { startEndpoint } from './endpoint.mjs';
import { Harness } from './harness.mjs';
import { Holds, latenessOf } from './holds.mjs';
import { aim, figure, hundredths, mean, say, storeOf, sumOf, tableOf, tenths, whole } from './report.mjs';
import { allowLocalWebhooks, askAsAdmin, subscribe } from './service.mjs';

/**
 * @typedef {{ name: string, tenants: number, instances?: number, isSubscribed?: boolean, eventsPerRequest?: number }} Case
 * @typedef {Awaited<ReturnType<typeof measureCase>>} Measured
 * @typedef {Measured['rounds'][number]} Round
 */

const CONNECTIONS = 200;
const TTL_MS = 2000;
const SECONDS = unlessShort({ warmUp: 3, calm: 5, leak: 15 }, { warmUp: 1, calm: 1, leak: 6 });
/** Odd, so that there is a median. */
const ROUNDS = unlessShort(3, 1);
const DRAIN_TIMEOUT_MS = 150_000;
const POLL_MS = 500;
const MANY = 64;
/** The first holds end after 2 s, and the endpoint's seconds begin up to a second before those of the load. */
const FIRST_SECOND = 4;
const TARGETS = {
  lateness_ms: 1000,
  rate: 0.85,
  p99: 1.5,
  subscribedRate: 0.8,
  delivered: 1500,
  drained: 4000,
};

/** @type {readonly Case[]} */
const CASES = [
  { name: 'one tenant, one instance', tenants: 1 },
  { name: 'one tenant, two instances', tenants: 1, instances: 2 },
  { name: '64 tenants, one instance', tenants: MANY },
  { name: '64 tenants, two instances', tenants: MANY, instances: 2 },
  { name: 'one tenant, subscribed', tenants: 1, isSubscribed: true },
  {
    name: 'one tenant, subscribed, 50 events a request',
    tenants: 1,
    isSubscribed: true,
    eventsPerRequest: 50,
  },
  { name: '64 tenants, subscribed', tenants: MANY, isSubscribed: true },
];

/**
 * @param {{ only?: string }} options
 * @returns {Promise<import('./types.ts').Measured>}
 */
export async function measure({ only = '' }) {
  const measured = [];
  for (const one of CASES.filter(({ name }) => name.includes(only))) {
    measured.push(await measureCase(one));
  }
  return {
    title: 'Leaked holds at saturation',
    subject: '200 connections make holds of 2 s that nobody settles, as fast as the service answers.',
    store: measured.at(-1)?.store ?? '',
    tables: [
      tableOf(
        measured.flatMap(({ name, rounds }) => rounds.map((round) => ({ name, ...round }))),
        COLUMNS,
        1,
      ),
    ],
    figures: measured.flatMap(figuresOf),
  };
}

/** @param {Case} one */
const measureCase = ({ name, tenants, instances = 1, isSubscribed = false, eventsPerRequest }) =>
  Harness.with({ settings: { HOLDFAST_WORKERS: String(instances) } }, async (harness) => {
    const targets = await harness.targets('leak', tenants);
    const { port, socket } = harness.service;
    const endpoint = isSubscribed ? harness.use(await startEndpoint(), (one) => one.stop()) : undefined;
    if (endpoint !== undefined) {
      await allowLocalWebhooks(port);
      // Of one tenant, or of the operators for all of them.
      const owner = tenants === 1 ? 'leak-0' : undefined;
      const id = await subscribe(port, `${endpoint.url}/expired`, owner);
      if (eventsPerRequest !== undefined) {
        const options = { events_per_request: eventsPerRequest };
        await askAsAdmin(port, 'PUT', `/ops/webhooks/${id}/options`, options);
      }
    }
    const holds = harness.use(new Holds(socket, targets), (one) => one.close());
    const reserve = (
      /** @type {string} */ title,
      /** @type {number} */ seconds,
      /** @type {number} */ ttlMs,
    ) => {
      say(`${name}: ${title}`);
      return harness.saturate(CONNECTIONS, seconds, { kind: 'sets', targets, ttlMs });
    };
    // Leases that do not end while the benchmark runs.
    const calmly = () => reserve('without leaks', SECONDS.calm, 3_600_000);
    await reserve('warming up', SECONDS.warmUp, 3_600_000);
    let before = await calmly();
    const rounds = [];
    // Each round is between two stretches without leaks, because the speed of a shared machine drifts.
    while (rounds.length < ROUNDS) {
      const mark = await holds.mark();
      const earlier = await deliveredTo(endpoint);
      const second = Math.floor(Date.now() / 1000);
      const leak = await reserve('every hold leaks', SECONDS.leak, TTL_MS);
      await drained(holds, endpoint, leak.operations + sumOf([...earlier.values()]));
      const lateness = latenessOf(await holds.expiredSince(mark));
      const delivered = await deliveredTo(endpoint);
      const seconds = Math.max(0, ...delivered.keys()) - second + 1;
      const bySecond = Array.from(
        { length: Math.max(0, seconds) },
        (_, at) => delivered.get(second + at) ?? 0,
      );
      const after = await calmly();
      rounds.push({ leak, calm: [before, after], lateness, bySecond });
      before = after;
    }
    return { name, isSubscribed, rounds, store: await storeOf(harness.redis) };
  });

/**
 * @param {import('./endpoint.mjs').Endpoint | undefined} endpoint
 * @returns {Promise<Map<number, number>>} by second since 1970
 */
const deliveredTo = async (endpoint) => (await endpoint?.bySecond()) ?? new Map();

/**
 * Waits until nothing is due, and everything is delivered. Polls rarely, so that polling costs nothing.
 * @param {Holds} holds
 * @param {import('./endpoint.mjs').Endpoint | undefined} endpoint
 * @param {number} count
 */
async function drained({ redis, places }, endpoint, count) {
  say('what is left expires');
  await delay(TTL_MS + POLL_MS);
  const tags = [...new Set(places.map(({ tag }) => tag))];
  const isDone = async () => {
    const due = await Promise.all(tags.map((tag) => redis.zcount(`${tag}ttl`, '-inf', Date.now())));
    const isDelivered = endpoint === undefined || sumOf([...(await deliveredTo(endpoint)).values()]) >= count;
    return due.every((some) => some === 0) && isDelivered;
  };
  await until(isDone, DRAIN_TIMEOUT_MS, 'the backlog was not drained', POLL_MS);
}

/** @param {Round} round */
const calmRate = ({ calm }) => mean(calm.map((one) => one.per_second));

/** @param {Round} round */
const calmP99 = ({ calm }) => mean(calm.map((one) => one.p99_ms));

/** @type {Record<string, (round: Round & { name: string }) => string>} */
const COLUMNS = {
  case: ({ name }) => name,
  'reserves a second': ({ leak }) => whole(leak.per_second),
  'without leaks': (round) => whole(calmRate(round)),
  'p99 ms': ({ leak }) => tenths(leak.p99_ms),
  'without leaks ': (round) => tenths(calmP99(round)),
  'lateness p50 ms': ({ lateness }) => whole(lateness.p50_ms),
  'p99 ms ': ({ lateness }) => whole(lateness.p99_ms),
  'max ms': ({ lateness }) => whole(lateness.max_ms),
};

/** @param {Measured} measured */
function figuresOf({ name, isSubscribed, rounds }) {
  const latest = Math.max(...rounds.map(({ lateness }) => lateness.max_ms));
  const rates = rounds.map((round) => round.leak.per_second / calmRate(round));
  const p99s = rounds.map((round) => round.leak.p99_ms / calmP99(round));
  const [text, atLeast] = [hundredths, isSubscribed ? TARGETS.subscribedRate : TARGETS.rate];
  const during = rounds.map(({ bySecond }) => bySecond.slice(FIRST_SECOND, SECONDS.leak));
  const after = rounds.map(({ bySecond }) => mean(bySecond.slice(SECONDS.leak + 1, -1)));
  const least = Math.min(...during.flat());
  return [
    aim(`${name}: lateness, max of all rounds`, latest, { unit: ' ms', atMost: TARGETS.lateness_ms }),
    aim(`${name}: requests, of their rate without leaks`, rates, { text, atLeast }),
    aim(`${name}: requests, p99 times that without leaks`, p99s, { text, atMost: TARGETS.p99 }),
    ...(isSubscribed
      ? [
          aim(`${name}: deliveries a second beside the load`, during.map(mean), {
            atLeast: TARGETS.delivered,
          }),
          figure(`${name}: the same in the worst second`, whole(least), '> 0', least > 0),
          aim(`${name}: deliveries a second after the load`, after, { atLeast: TARGETS.drained }),
        ]
      : []),
  ];
}
