import { Module } from '@nestjs/common';
import { MetricsModule } from '../telemetry/index.js';
import { EventFeed } from './event-feed.js';
import { EventsController } from './events.controller.js';
import { EventsService } from './events.service.js';
import { StoreOutages } from './store-outages.js';

@Module({
  imports: [MetricsModule],
  controllers: [EventsController],
  providers: [EventFeed, EventsService, StoreOutages],
  exports: [EventFeed],
})
export class EventLogModule {}
