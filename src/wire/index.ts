export { csvCell } from './csv.js';
export { exactInteger, isPlainObject, JsonProblem, readJson, stringifyJson } from './exact-json.js';
export { EXPORT_TYPES, type Format, formatOf, FORMATS } from './formats.js';
export { canonicalJson, parseBody } from './json.js';
export {
  decodeCursor,
  encodeCursor,
  pageEnd,
  PageSelection,
  placeAfter,
  type Position,
  type SortOrder,
  sortOrderOf,
  type SortValue,
} from './cursor.js';
export {
  DEFAULT_LIMIT,
  fieldOf,
  type Fields,
  fieldsOf,
  instantMs,
  IsDateTime,
  ListQueryDto,
  matchesSearch,
  MAX_LIMIT,
  optional,
  optionalText,
  optionalTime,
  type Page,
  PageCursor,
  PageLimit,
  PageQueryDto,
  RecordSelection,
  SearchText,
  timeOf,
  WindowBound,
  WindowQueryDto,
} from './listing.js';
export {
  type Batch,
  EXAMINED_A_PAGE,
  mergedPage,
  type MergedPage,
  pageInTime,
  pageSorted,
  type TimeLog,
} from './merged-page.js';
export {
  isCount,
  isListOf,
  isMapOf,
  isObject,
  isOneOf,
  isOptional,
  isText,
  isTextLike,
  MalformedJson,
  readStored,
  readTexts,
} from './stored-json.js';
export { type Origin, type RequestTrace, traceText } from './origin.js';
export { type DtoClass, fieldsFrom, rulesToSchema } from './rules/class-rules.js';
export { bodyCheck, bodyOf, compileValidator, queryCheck, queryOf } from './rules/compile.js';
export {
  depthWithin,
  FREE_OBJECT,
  IsFreeObject,
  IsInAnyCase,
  IsInt,
  IsInt64,
  IsNumber,
  IsStringMap,
  Length,
  Matches,
  MaxJsonBytes,
  MaxLength,
  Nested,
  NestedArray,
  Obeys,
  Optional,
  requireFreeObjectSize,
  Satisfies,
} from './rules/decorators.js';
export type { Rule, Schema } from './rules/rule.js';
