import { Module } from '@nestjs/common';
import { MetricsModule } from '../telemetry/index.js';
import { OverviewController } from './overview.controller.js';
import { OverviewService } from './overview.service.js';

/** The operators' overview. */
@Module({ imports: [MetricsModule], controllers: [OverviewController], providers: [OverviewService] })
export class OverviewModule {}
