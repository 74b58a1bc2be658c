import { Module } from '@nestjs/common';
import { MaintenanceMetrics } from './maintenance-metrics.js';
import { MetricsController } from './metrics.controller.js';
import { MetricsRegistry } from './metrics-registry.js';
import { RequestMetrics } from './request-metrics.js';

@Module({
  controllers: [MetricsController],
  providers: [MetricsRegistry, MaintenanceMetrics, RequestMetrics],
  exports: [MetricsRegistry, MaintenanceMetrics, RequestMetrics],
})
export class MetricsModule {}
