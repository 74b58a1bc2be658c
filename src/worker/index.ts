export { type LeaseReply, PartitionLeases } from './partition-leases.js';
export { type Job, PartitionPass, type Turn, type TurnReport, Worker, WorkerModule } from './worker.js';
export { SharedRedisTime } from './shared-redis-time.js';
