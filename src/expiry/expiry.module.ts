import { Module } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { ExpiryMetricsModule } from './expiry-metrics.module.js';
import { ExpiryService } from './expiry.service.js';
import { HealthModule } from '../health/index.js';
import { MetricsModule } from '../metrics/index.js';
import { PartitionDrain } from './partition-drain.js';
import { PartitionLeases } from './partition-leases.js';
import { SweepMetrics } from './sweep.metrics.js';
import { SweeperHealth } from './sweeper-health.js';

@Module({
  imports: [ScheduleModule.forRoot(), HealthModule, MetricsModule, ExpiryMetricsModule],
  providers: [ExpiryService, PartitionDrain, PartitionLeases, SweepMetrics, SweeperHealth],
  exports: [ExpiryService],
})
export class ExpiryModule {}
