import { Module } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { ExpiryMetricsModule } from '../expiry/index.js';
import { MetricsModule } from '../telemetry/index.js';
import { ExpirationFeed } from './expiration-feed.js';
import { ExpirationsService } from './expirations.service.js';
import { LogJanitor } from './log.janitor.js';
import { OpsController } from './ops.controller.js';
import { StoryService } from './reservation-history.js';
import { RetentionJanitor } from './retention.janitor.js';
import { RetentionMetrics } from './retention.metrics.js';
import { TenantBooks } from './tenant-tally.js';
import { VerifyMetrics, VerifyService } from './verify.service.js';

@Module({
  imports: [ScheduleModule.forRoot(), ExpiryMetricsModule, MetricsModule],
  controllers: [OpsController],
  providers: [
    ExpirationFeed,
    ExpirationsService,
    LogJanitor,
    RetentionJanitor,
    RetentionMetrics,
    StoryService,
    TenantBooks,
    VerifyMetrics,
    VerifyService,
  ],
})
export class AuditModule {}
