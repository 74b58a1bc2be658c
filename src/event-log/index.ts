export { eventIdOf, eventPlaceOf, type EventPlace } from './event-id.js';
