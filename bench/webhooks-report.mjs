// The figures of the dispatcher's benchmark, each beside its target.
import { doubts, figure, storeOf, tenths, whole } from './report.mjs';

/**
 * @typedef {import('./types.ts').Latency & import('./types.ts').Shared & {
 *   count: number, repeated: number, server_cpu_s: number, redis_cpu_s: number, endpoint_cpu_s: number
 * }} Deliveries
 * @typedef {{ perSecond: number, backlog: Deliveries & { per_second: number }, calm: Deliveries, beside: Deliveries }} WebhooksMeasurement
 */

const TARGETS = { per_second: 2000, p99_ms: 500, more_ms: 100 };

const HEAD = [
  'phase',
  'delivered',
  'repeated',
  'a second',
  'from expiry p50 ms',
  'p99 ms',
  'max ms',
  'CPU s: service',
  'Redis',
  'endpoint',
  'seconds',
];

/**
 * @param {import('ioredis').Redis} redis
 * @param {WebhooksMeasurement} measured
 * @returns {Promise<import('./types.ts').Result>}
 */
export async function webhooksResult(redis, { perSecond, backlog, calm, beside }) {
  const more = beside.p99_ms - calm.p99_ms;
  return {
    title: 'The dispatcher',
    command: 'npm run bench -- webhooks',
    subject: 'The dispatcher, 16 tenants with a subscription each, the endpoint beside it.',
    store: await storeOf(redis),
    tables: [
      {
        head: HEAD,
        rows: [
          phaseRow('a backlog that expires at once', backlog, backlog.per_second),
          phaseRow(`${perSecond} expirations a second`, calm, perSecond),
          phaseRow('the same, one more endpoint hangs 30 s', beside, perSecond),
        ],
        texts: 1,
      },
    ],
    figures: [
      figure(
        'deliveries of one process',
        `${whole(backlog.per_second)} a second`,
        `≥ ${whole(TARGETS.per_second)}`,
        backlog.per_second >= TARGETS.per_second,
      ),
      figure(
        'from expiry to first attempt, p99',
        `${whole(calm.p99_ms)} ms`,
        `≤ ${TARGETS.p99_ms} ms`,
        calm.p99_ms <= TARGETS.p99_ms,
      ),
      figure(
        'the same beside an endpoint that hangs: more',
        `${whole(more)} ms`,
        `≤ ${TARGETS.more_ms} ms`,
        more <= TARGETS.more_ms,
      ),
    ],
    notes: doubts([backlog, calm, beside]),
  };
}

/**
 * @param {string} name
 * @param {Deliveries} phase
 * @param {number} perSecond
 */
function phaseRow(name, phase, perSecond) {
  const { count, repeated, p50_ms, p99_ms, max_ms, server_cpu_s, redis_cpu_s, endpoint_cpu_s, elapsed_s } =
    phase;
  const seconds = [server_cpu_s, redis_cpu_s, endpoint_cpu_s, elapsed_s].map(tenths);
  return [name, ...[count, repeated, perSecond, p50_ms, p99_ms, max_ms].map(whole), ...seconds];
}
