export { canonicalJson } from './canonical.js';
export {
  decodeCursor,
  encodeCursor,
  PageSelection,
  type Position,
  type SortOrder,
  sortOrderOf,
  type SortValue,
} from './cursor.js';
export { fieldOf, type Fields, fieldsOf, optionalText, optionalTime, timeOf } from './fields.js';
export { parseBody, parseJson, stringifyJson } from './json.js';
export {
  DEFAULT_LIMIT,
  ListQueryDto,
  matchesSearch,
  MAX_LIMIT,
  type Page,
  PageQueryDto,
  RecordSelection,
  WindowQueryDto,
  withTexts,
} from './listing.js';
export { EXAMINED_A_PAGE, pageInTime, pageSorted, type TimeLog } from './log-page.js';
export { type Batch, mergedPage, type MergedPage } from './merged-page.js';
export { type Origin, type RequestTrace, traceText } from './origin.js';
export { type DtoClass, rulesToSchema } from './rules/class-rules.js';
export { compileQuery, compileValidator } from './rules/compile.js';
export {
  depthWithin,
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
