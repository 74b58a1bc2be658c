import { BUDGETS } from './changes/budgets.mjs';
import { EXPIRY } from './changes/expiry.mjs';
import { LIMITS } from './changes/limits.mjs';
import { OPERATIONS } from './changes/operations.mjs';
import { SETTLEMENTS } from './changes/settlements.mjs';
import { WAITING } from './changes/waiting.mjs';
import { WINDOWS } from './changes/windows.mjs';

/**
 * A change that makes a script wrong. `find` must occur in the file exactly once. If all tests of scripts pass on the changed script,
 * another test is missing, or `because` says why it cannot be distinguished from the original.
 * @typedef {{ readonly what: string, readonly find: string, readonly put: string, readonly because?: string }} Mutation
 * @typedef {Readonly<Record<string, { readonly tests: readonly string[], readonly mutations: readonly Mutation[] }>>} Mutations
 *   by Lua file; `tests` are tried first
 */

/** @type {Mutations} */
export const MUTATIONS = {
  ...OPERATIONS,
  ...SETTLEMENTS,
  ...EXPIRY,
  ...BUDGETS,
  ...LIMITS,
  ...WAITING,
  ...WINDOWS,
};
