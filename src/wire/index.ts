export {
  decodeCursor,
  encodeCursor,
  PageSelection,
  type Position,
  type SortOrder,
  sortOrderOf,
  type SortValue,
} from './cursor.js';
export { parseBody, parseJson, stringifyJson } from './json.js';
export {
  DEFAULT_LIMIT,
  fieldOf,
  type Fields,
  fieldsOf,
  ListQueryDto,
  matchesSearch,
  MAX_LIMIT,
  optionalText,
  optionalTime,
  type Page,
  PageQueryDto,
  RecordSelection,
  timeOf,
  WindowQueryDto,
  withTexts,
} from './listing.js';
export { EXAMINED_A_PAGE, pageInTime, pageSorted, type TimeLog } from './log-page.js';
export { mergedPage, type MergedPage, type Batch } from './merged-page.js';
export { type Origin, type RequestTrace, traceText } from './origin.js';
export type { DtoClass } from './rules/class-rules.js';
export { compileQuery, compileValidator } from './rules/compile.js';
export {
  FREE_OBJECT,
  IsFreeObject,
  IsInAnyCase,
  IsInt64,
  IsStringMap,
  Length,
  MaxJsonBytes,
  MaxLength,
  Nested,
  Obeys,
  Optional,
  requireWithinMetadataLimit,
  Satisfies,
  useMetadataLimit,
} from './rules/decorators.js';
export { instantMs, IsDateTime, IsWindowBound } from './rules/instant.js';
export type { Rule, Schema } from './rules/rule.js';
export { rulesToSchema } from './rules/schema.js';
