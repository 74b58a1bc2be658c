export { ConcurrencyLimiter, type Claim, type Denial } from './concurrency-limiter.js';
