export { countLeases, MAINTENANCE_METRICS } from './maintenance.metrics.js';
export { type BeatReport, type LeaseReply, PartitionLeases } from './partition-leases.js';
export { PartitionJobs, type PartitionRun } from './partition-jobs.js';
export { type LeaveOut, PartitionWalk } from './partition-walk.js';
export { type Job, type Turn, type TurnReport, Worker } from './worker.js';
export { SharedRedisTime } from './shared-redis-time.js';
export { WorkerModule } from './worker.module.js';
