export { type LeaseAnswer, PartitionLeases } from './partition-leases.js';
export { PartitionPass } from './partition-pass.js';
export { SharedRedisTime } from './shared-redis-time.js';
export { type Job, type Turn, type TurnReport, Worker, WorkerModule } from './worker.js';
