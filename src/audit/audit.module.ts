import { Module } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import { ExpiryModule } from '../expiry/index.js';
import { HttpModule } from '../http/index.js';
import { WorkerModule } from '../worker/index.js';
import { AuditLogController } from './audit-log/audit-log.controller.js';
import { AuditLogService } from './audit-log/audit-log.service.js';
import { AuditOperations } from './audit-log/audit-operations.js';
import { AuditedRequests } from './audit-log/audited-requests.js';
import { AuditWriter } from './audit-log/audit-writer.js';
import { ExpirationCounts } from './expiration-counts.js';
import { ExpirationFeed } from './expiration-feed.js';
import { ExpirationsService } from './expirations.service.js';
import { OpsController } from './ops.controller.js';
import { HistoryService } from './reservation-history.js';
import { JournalReader } from './journal-reader.js';
import { TenantReader } from './tenant-reader.js';
import { VerifyService } from './verify.service.js';

/** The audit log of operations, and the history of the ledger with its verification. */
@Module({
  imports: [DiscoveryModule, ExpiryModule, HttpModule, WorkerModule],
  controllers: [AuditLogController, OpsController],
  providers: [
    AuditLogService,
    AuditOperations,
    AuditedRequests,
    AuditWriter,
    ExpirationCounts,
    ExpirationFeed,
    ExpirationsService,
    HistoryService,
    JournalReader,
    TenantReader,
    VerifyService,
  ],
})
export class AuditModule {}
