export { jsonOf } from './event-data.js';
export { EventFeed } from './event-feed.js';
export {
  categoryOf,
  type CyclesEvent,
  EVENT_CATEGORIES,
  EVENT_TYPES,
  type EventCategory,
  eventIdOf,
  eventJson,
  eventOrder,
  eventPlaceOf,
  TENANT_EVENT_CATEGORIES,
  toEvent,
  traceOf,
} from './event.js';
export { EventLogModule } from './events.module.js';
