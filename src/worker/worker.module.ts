import { Module } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { PartitionJobs } from './partition-jobs.js';
import { Worker } from './worker.js';

@Module({
  imports: [ScheduleModule.forRoot()],
  providers: [PartitionJobs, Worker],
  exports: [PartitionJobs, Worker],
})
export class WorkerModule {}
