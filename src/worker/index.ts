export { type LeaseAnswer, LeaseShares } from './lease-shares.js';
