import { Module } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { HealthModule } from '../health/index.js';
import { ExpiryMetricsModule } from './expiry-metrics.module.js';
import { ExpiryService } from './expiry.service.js';

@Module({ imports: [ScheduleModule.forRoot(), HealthModule, ExpiryMetricsModule], providers: [ExpiryService], exports: [ExpiryService] })
export class ExpiryModule {}
