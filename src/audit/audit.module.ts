import { Module } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import { ExpiryMetricsModule } from '../expiry/index.js';
import { AuthModule, HealthModule } from '../http/index.js';
import { ListingModule } from '../redis/index.js';
import { WorkerModule } from '../worker/index.js';
import { AuditLogController } from './audit-log/audit-log.controller.js';
import { AuditLogService } from './audit-log/audit-log.service.js';
import { AuditOperations } from './audit-log/audit-operations.js';
import { AuditTrail } from './audit-log/audit-trail.js';
import { AuditWriter } from './audit-log/audit-writer.js';
import { ExpirationCounts } from './expiration-counts.js';
import { ExpirationFeed } from './expiration-feed.js';
import { ExpirationsService } from './expirations.service.js';
import { LogJanitor } from './log.janitor.js';
import { OpsController } from './ops.controller.js';
import { HistoryService } from './reservation-history.js';
import { RetentionJanitor } from './retention.janitor.js';
import { TenantReader } from './tenant-reader.js';
import { VerifyService } from './verify.service.js';

/** Writes the audit log. */
@Module({
  imports: [AuthModule, DiscoveryModule, HealthModule],
  providers: [AuditOperations, AuditTrail, AuditWriter],
  exports: [AuditTrail],
})
export class AuditTrailModule {}

/** Reads the audit log. */
@Module({
  imports: [AuditTrailModule, ListingModule],
  controllers: [AuditLogController],
  providers: [AuditLogService],
  exports: [AuditLogService],
})
export class AuditLogModule {}

/** The history of the ledger, its verification, and its retention. */
@Module({
  imports: [ExpiryMetricsModule, WorkerModule],
  controllers: [OpsController],
  providers: [
    ExpirationCounts,
    ExpirationFeed,
    ExpirationsService,
    LogJanitor,
    RetentionJanitor,
    HistoryService,
    TenantReader,
    VerifyService,
  ],
})
export class AuditModule {}
