export { PublicRateLimit } from './public-rate-limit.js';
export { MAX_SOURCES, RateLimit } from './rate-limit.js';
export { RateLimits } from './rate-limits.js';
export { RateLimitsModule } from './rate-limits.module.js';
export { sourceOf } from './source.js';
export { WindowClock } from './window-clock.js';
