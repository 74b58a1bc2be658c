export { LimitedQuery } from './limited-query.js';
