export { jsonOf } from './event-data.js';
export { OF_EVENT } from './event-owner.js';
export { eventWebhooks } from './event-webhooks.js';
export { EventFeed } from './event-feed.js';
export {
  type CyclesEvent,
  eventIdOf,
  eventJson,
  eventOrder,
  eventPlaceOf,
  toEvent,
  traceOf,
} from './event.js';
export { EventLogModule } from './events.module.js';
export { EventsService } from './events.service.js';
