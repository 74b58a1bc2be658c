export { requireWithinMetadataLimit, useMetadataLimit } from './byte-limits.js';
export { compileValidator } from './compile.js';
export { compileQuery } from './query.js';
export { instantMs, IsDateTime, IsWindowBound } from './instant.js';
export { rulesToSchema } from './schema.js';
export type { DtoClass } from './class-rules.js';
export type { Rule, Schema } from './rule.js';
export {
  FREE_OBJECT,
  IsFreeObject,
  IsInAnyCase,
  IsInt64,
  IsStringMap,
  Length,
  MaxJsonBytes,
  MaxLength,
  MinLength,
  Nested,
  NestedArray,
  Obeys,
  Optional,
  Satisfies,
} from './decorators.js';
