import { Module } from '@nestjs/common';
import { EventLogModule } from '../../event-log/index.js';
import { MetricsModule } from '../../metrics/index.js';
import { SubscriptionAccessModule } from '../subscriptions/index.js';
import { ReplayController } from './replay.controller.js';
import { ReplayMetrics } from './replay.metrics.js';
import { ReplayQueue } from './replay-queue.js';
import { ReplaySelection } from './replay-selection.js';
import { ReplayService } from './replay.service.js';

@Module({
  imports: [EventLogModule, MetricsModule, SubscriptionAccessModule],
  controllers: [ReplayController],
  providers: [ReplayService, ReplayMetrics, ReplayQueue, ReplaySelection],
})
export class ReplayModule {}
