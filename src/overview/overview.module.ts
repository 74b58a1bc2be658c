import { Module } from '@nestjs/common';
import { OverviewController } from './overview.controller.js';
import { TenantSumsController } from './tenant-sums.controller.js';
import { OverviewService } from './overview.service.js';

/** The operators' overview. */
@Module({ controllers: [OverviewController, TenantSumsController], providers: [OverviewService] })
export class OverviewModule {}
