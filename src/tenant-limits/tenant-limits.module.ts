import { Module } from '@nestjs/common';
import { MetricsModule } from '../metrics/index.js';
import { TenantLimits } from './tenant-limits.js';

@Module({ imports: [MetricsModule], providers: [TenantLimits], exports: [TenantLimits] })
export class TenantLimitsModule {}
