export { archivedRows, filesText } from './archived-rows.js';
export { FileQueryFailed, QueryProcess } from './query-process.js';
export { UsageModule } from './usage.module.js';
