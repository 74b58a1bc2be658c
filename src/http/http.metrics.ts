import type { MetricsTable } from '../telemetry/index.js';

export const HTTP_METRICS = {
  unexpectedErrors: {
    name: 'holdfast_unexpected_errors_total',
    help: 'Requests and background work that failed unexpectedly; each has one error line in the log.',
  },
  ready: {
    name: 'holdfast_ready',
    help: '1 while readiness is green.',
    acrossWorkers: 'min',
  },
  redisUp: {
    name: 'holdfast_redis_up',
    help: '1 while Redis answers this instance, does not evict and is not full.',
    acrossWorkers: 'min',
  },
  warnings: {
    name: 'holdfast_warning',
    help: '1 for each warning of readiness, by its code.',
    labels: ['code'],
    acrossWorkers: 'max',
  },
  largeBodyPauses: {
    name: 'holdfast_large_body_pauses_total',
    help: 'Pauses of requests with large bodies, because these had used up their share of the time.',
  },
  largeBodiesRefused: {
    name: 'holdfast_large_bodies_refused_total',
    help: 'Requests with large bodies refused with 429, because they had waited too long for their turn.',
  },
} as const satisfies MetricsTable;
