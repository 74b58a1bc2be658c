import { Module } from '@nestjs/common';
import { EventFeed } from './event-feed.js';
import { EventsController } from './events.controller.js';
import { EventsService } from './events.service.js';
import { StoreOutages } from './store-outages.js';

@Module({
  controllers: [EventsController],
  providers: [EventFeed, EventsService, StoreOutages],
  exports: [EventFeed, EventsService],
})
export class EventLogModule {}
