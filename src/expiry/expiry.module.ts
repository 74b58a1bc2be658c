import { Module } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { HealthModule } from '../http/index.js';
import { TenantLimitsModule } from '../limits/index.js';
import { MetricsModule } from '../telemetry/index.js';
import { CleanupController } from './cleanup/cleanup.controller.js';
import { CleanupService } from './cleanup/cleanup.service.js';
import { ExpiryMetricsModule } from './expiry-metrics.module.js';
import { ExpiryService } from './expiry.service.js';
import { PartitionDrain } from './partition-drain.js';
import { PartitionLeases } from './partition-leases.js';
import { QuarantineController } from './quarantine/quarantine.controller.js';
import { QuarantineService } from './quarantine/quarantine.service.js';
import { Reconciler } from './reconciler.js';
import { SweepMetrics } from './sweep.metrics.js';
import { SweeperHealth } from './sweeper-health.js';
import { SweeperState } from './sweeper-state.js';
import { SweeperController } from './sweeper.controller.js';

@Module({
  imports: [ScheduleModule.forRoot(), HealthModule, MetricsModule, ExpiryMetricsModule, TenantLimitsModule],
  controllers: [CleanupController, QuarantineController, SweeperController],
  providers: [
    CleanupService,
    ExpiryService,
    PartitionDrain,
    PartitionLeases,
    QuarantineService,
    Reconciler,
    SweepMetrics,
    SweeperHealth,
    SweeperState,
  ],
  exports: [ExpiryService],
})
export class ExpiryModule {}
