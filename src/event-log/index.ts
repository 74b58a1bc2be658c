export { eventIdOf, eventPlaceOf, type EventPlace } from './event-id.js';
export { eventJson, toEvent, traceOf, type CyclesEvent, type EventTrace } from './event.js';
export { jsonOf, type EventData } from './event-data.js';
export {
  categoryOf,
  EVENT_CATEGORIES,
  EVENT_TYPES,
  TENANT_EVENT_CATEGORIES,
  type EventCategory,
} from './event-type.js';
export { EventFeed, type EventPage, type EventPageRequest } from './event-feed.js';
export { EventLogModule } from './event-log.module.js';
export { StoreOutages } from './store-outages.js';
export type { EventQuestion } from './event-source.js';
