export { PartitionLeases, type LeaseAnswer, type LeasedPartition } from './partition-leases.js';
export { Worker, type Job, type Turn, type TurnReport } from './worker.js';
export { WorkerModule } from './worker.module.js';
