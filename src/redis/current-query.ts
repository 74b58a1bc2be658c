import { RestingStorage } from './resting-storage.js';
import type { SkippedNames } from './skipped-names.js';

/** The owner of the queries of operators, who count as one tenant. */
export const OPERATORS = '';

export interface QueryContext {
  readonly owner: string;
  readonly signal: AbortSignal;
  /** What the query has left out. */
  readonly skipped?: SkippedNames | undefined;
  /** Whether the query has been counted as abandoned. */
  isCounted: boolean;
}

/** The query that what runs now belongs to. One per process: Node stores a value of each storage in every promise. */
export const CURRENT_QUERY = new RestingStorage<QueryContext>();
