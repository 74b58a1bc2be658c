import { Module } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { ExpiryMetricsModule } from '../../expiry/index.js';
import { MetricsModule } from '../../metrics/index.js';
import { ListingModule } from '../listing/index.js';
import { ExpiryPolicyController } from './expiry-policy.controller.js';
import { TenantClosing } from './tenant-closing.js';
import { TenantClosingJanitor } from './tenant-closing.janitor.js';
import { TenantClosingMetrics } from './tenant-closing.metrics.js';
import { TenantsController } from './tenants.controller.js';
import { TenantsService } from './tenants.service.js';

@Module({
  imports: [ListingModule, MetricsModule, ExpiryMetricsModule, ScheduleModule.forRoot()],
  controllers: [ExpiryPolicyController, TenantsController],
  providers: [TenantsService, TenantClosing, TenantClosingMetrics, TenantClosingJanitor],
  exports: [TenantsService],
})
export class TenantsModule {}
