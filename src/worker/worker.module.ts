import { Module } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { MetricsModule } from '../telemetry/index.js';
import { Worker } from './worker.js';

@Module({
  imports: [ScheduleModule.forRoot(), MetricsModule],
  providers: [Worker],
  exports: [Worker],
})
export class WorkerModule {}
