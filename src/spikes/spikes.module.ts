import { Module } from '@nestjs/common';
import { AuthModule } from '../auth/index.js';
import { WebhooksModule } from '../webhooks/index.js';
import { WorkerModule } from '../worker/index.js';
import { BurnRates } from './burn-rates.js';
import { PartitionJobs } from './partition-jobs.js';
import { ServiceRates } from './service-rates.js';
import { TenantRates } from './tenant-rates.js';

/** Events of rates and latencies that exceed a threshold. */
@Module({
  imports: [AuthModule, WebhooksModule, WorkerModule],
  providers: [BurnRates, PartitionJobs, ServiceRates, TenantRates],
})
export class SpikesModule {}
