import type { MetricsTable } from '../telemetry/index.js';

export const AUTH_METRICS = {
  failures: {
    name: 'holdfast_auth_failures_total',
    help: 'Requests that were refused for their key or its permissions.',
    labels: ['reason'],
  },
  cacheHits: {
    name: 'holdfast_auth_cache_hits_total',
    help: 'API keys that were verified without a round trip to Redis.',
  },
  cacheMisses: {
    name: 'holdfast_auth_cache_misses_total',
    help: 'API keys that had to be looked up in Redis.',
  },
  deprecated: {
    name: 'holdfast_auth_deprecated_permissions_total',
    help: 'Requests that a permission allowed which a later version will not accept for them.',
    labels: ['permission'],
  },
  keyUses: {
    name: 'holdfast_api_key_uses_noted_total',
    help: 'Updates of the last_used_at of API keys, at most one a minute for each, by outcome: noted or failed.',
    labels: ['outcome'],
  },
  rateLimited: {
    name: 'holdfast_rate_limited_total',
    help: 'Requests that this instance refused with 429, by the limit that they exceeded.',
    labels: ['limit'],
  },
} as const satisfies MetricsTable;
