export { countLeases, MAINTENANCE_METRICS } from './maintenance.metrics.js';
export { type BeatReport, type LeaseReply, PartitionLeases } from './partition-leases.js';
export { PartitionWalk } from './partition-walk.js';
export { type Job, type Turn, type TurnReport, Worker, WorkerModule } from './worker.js';
export { SharedRedisTime } from './shared-redis-time.js';
