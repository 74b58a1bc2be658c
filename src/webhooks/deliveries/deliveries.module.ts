import { Module } from '@nestjs/common';
import { MetricsModule } from '../../metrics/index.js';
import { SubscriptionAccessModule } from '../subscriptions/index.js';
import { DeliveriesController } from './deliveries.controller.js';
import { DeliveriesService } from './deliveries.service.js';
import { DeliveryFeed } from './delivery-feed.js';

@Module({
  imports: [MetricsModule, SubscriptionAccessModule],
  controllers: [DeliveriesController],
  providers: [DeliveriesService, DeliveryFeed],
})
export class DeliveriesModule {}
