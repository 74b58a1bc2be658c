export * from './compare.js';
export * from './documents.js';
export * from './evidence.js';
export { eventDataSchemaOf } from './event-data.js';
export * from './registry.js';
export { contractProblems, type Exchange, OWN_OPERATIONS } from './responses.js';
export * from './schema-book.js';
