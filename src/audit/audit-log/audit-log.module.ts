import { Module } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import { AuthModule, HealthModule } from '../../http/index.js';
import { ListingModule } from '../../redis/index.js';
import { MetricsModule } from '../../telemetry/index.js';
import { AuditLogController } from './audit-log.controller.js';
import { AuditLogService } from './audit-log.service.js';
import { AuditOperations } from './audit-operations.js';
import { AuditTrail } from './audit-trail.js';
import { AuditTrailMetrics, AuditWriter } from './audit-writer.js';

@Module({
  imports: [AuthModule, DiscoveryModule, HealthModule, MetricsModule],
  providers: [AuditOperations, AuditTrail, AuditTrailMetrics, AuditWriter],
  exports: [AuditTrail],
})
export class AuditTrailModule {}

@Module({
  imports: [AuditTrailModule, ListingModule, MetricsModule],
  controllers: [AuditLogController],
  providers: [AuditLogService],
  exports: [AuditLogService],
})
export class AuditLogModule {}
