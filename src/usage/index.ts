export { FileQueryFailed, QueryProcess } from './query-process.js';
export { UsageModule } from './usage.module.js';
