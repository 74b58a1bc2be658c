import { Module } from '@nestjs/common';
import { ListingModule } from '../listing/index.js';
import { AuditLogController } from './audit-log.controller.js';
import { AuditLogService } from './audit-log.service.js';

@Module({ imports: [ListingModule], controllers: [AuditLogController], providers: [AuditLogService], exports: [AuditLogService] })
export class AuditLogModule {}
