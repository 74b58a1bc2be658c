export {
  LeaseShares,
  type BeatReport,
  type LeaseAnswer,
  type LeasedPartition,
  type LeaseTerms,
} from './lease-shares.js';
