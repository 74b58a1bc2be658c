import { Module } from '@nestjs/common';
import { CleanupController } from './cleanup/cleanup.controller.js';
import { CleanupService } from './cleanup/cleanup.service.js';
import { ExpiryService } from './expiry.service.js';
import { HealthModule } from '../http/index.js';
import { TenantLimitsModule } from '../limits/index.js';
import { WorkerModule } from '../worker/index.js';
import { PartitionDrain } from './partition-drain.js';
import { SweepLeases } from './sweep-partition.js';
import { QuarantineController } from './quarantine/quarantine.controller.js';
import { QuarantineService } from './quarantine/quarantine.service.js';
import { Reclaims } from './reclaims.js';
import { Reconciler } from './reconciler.js';
import { SweeperController, SweeperState } from './sweeper-state.js';

/** What counts expiries, and what runs the scripts that may expire holds first. */
@Module({
  providers: [Reclaims],
  exports: [Reclaims],
})
export class ExpiryMetricsModule {}

@Module({
  imports: [HealthModule, ExpiryMetricsModule, TenantLimitsModule, WorkerModule],
  controllers: [CleanupController, QuarantineController, SweeperController],
  providers: [
    CleanupService,
    ExpiryService,
    PartitionDrain,
    SweepLeases,
    QuarantineService,
    Reconciler,
    SweeperState,
  ],
  exports: [ExpiryService, SweeperState],
})
export class ExpiryModule {}
