import { Module } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import { AuthModule } from '../auth/index.js';
import { HealthModule } from '../health/index.js';
import { MetricsModule } from '../metrics/index.js';
import { AuditOperations } from './audit-operations.js';
import { AuditTrail } from './audit-trail.js';
import { AuditTrailMetrics } from './audit-trail.metrics.js';
import { AuditWriter } from './audit-writer.js';

@Module({
  imports: [AuthModule, DiscoveryModule, HealthModule, MetricsModule],
  providers: [AuditOperations, AuditTrail, AuditTrailMetrics, AuditWriter],
  exports: [AuditTrail],
})
export class AuditTrailModule {}
