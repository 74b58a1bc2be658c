import { Module } from '@nestjs/common';
import { MetricsModule } from '../telemetry/index.js';
import { ExpiryMetrics } from './expiry.metrics.js';

@Module({ imports: [MetricsModule], providers: [ExpiryMetrics], exports: [ExpiryMetrics] })
export class ExpiryMetricsModule {}
