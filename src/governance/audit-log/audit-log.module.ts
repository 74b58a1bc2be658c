import { Module } from '@nestjs/common';
import { AuditTrailModule } from '../../audit-trail/index.js';
import { MetricsModule } from '../../metrics/index.js';
import { ListingModule } from '../listing/index.js';
import { AuditLogController } from './audit-log.controller.js';
import { AuditLogService } from './audit-log.service.js';

@Module({
  imports: [AuditTrailModule, ListingModule, MetricsModule],
  controllers: [AuditLogController],
  providers: [AuditLogService],
  exports: [AuditLogService],
})
export class AuditLogModule {}
