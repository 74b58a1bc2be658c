export { countExpiry, LATENESS_BUCKETS } from './expiry.metrics.js';
export { ExpiryModule } from './expiry.module.js';
export { ExpiryService } from './expiry.service.js';
export { type Decided, Reclaims } from './reclaims.js';
export { SweeperState, type SweeperStateReport } from './sweeper-state.js';
