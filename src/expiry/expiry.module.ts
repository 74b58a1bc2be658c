import { Module } from '@nestjs/common';
import { CleanupController } from './cleanup/cleanup.controller.js';
import { CleanupService } from './cleanup/cleanup.service.js';
import { ExpiryService } from './expiry.service.js';
import { HttpModule } from '../http/index.js';
import { LimitsModule } from '../limits/index.js';
import { WorkerModule } from '../worker/index.js';
import { PartitionDrain } from './partition-drain.js';
import { SweepLeases } from './sweep-partition.js';
import { QuarantineController } from './quarantine/quarantine.controller.js';
import { QuarantineService } from './quarantine/quarantine.service.js';
import { Reclaims } from './reclaims.js';
import { Reconciler } from './reconciler.js';
import { SweeperController, SweeperState } from './sweeper-state.js';

@Module({
  imports: [HttpModule, LimitsModule, WorkerModule],
  controllers: [CleanupController, QuarantineController, SweeperController],
  providers: [
    CleanupService,
    ExpiryService,
    PartitionDrain,
    SweepLeases,
    QuarantineService,
    Reclaims,
    Reconciler,
    SweeperState,
  ],
  exports: [ExpiryService, Reclaims, SweeperState],
})
export class ExpiryModule {}
