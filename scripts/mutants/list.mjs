import { ADMISSION } from './changes/admission.mjs';
import { BOUNDS } from './changes/bounds.mjs';
import { BUDGETS } from './changes/budgets.mjs';
import { CHECKLISTS } from './changes/checklists.mjs';
import { CREDITS } from './changes/credits.mjs';
import { EVERYWHERE } from './changes/everywhere.mjs';
import { EXPIRY } from './changes/expiry.mjs';
import { JOURNAL } from './changes/journal.mjs';
import { LIMITS } from './changes/limits.mjs';
import { OPERATIONS } from './changes/operations.mjs';
import { OVERTAKEN } from './changes/overtaken.mjs';
import { PASSES } from './changes/passes.mjs';
import { REFUNDS } from './changes/refunds.mjs';
import { RUNS } from './changes/runs.mjs';
import { SETTLEMENTS } from './changes/settlements.mjs';
import { TEMPLATES } from './changes/templates.mjs';
import { WAITING } from './changes/waiting.mjs';
import { WINDOWS } from './changes/windows.mjs';

/**
 * A change that makes a script or a service wrong. `find` must occur in the file exactly once. If all tests pass on the changed file,
 * another test is missing, or `because` says why it cannot be distinguished from the original.
 * @typedef {{ readonly what: string, readonly find: string, readonly put: string, readonly because?: string, readonly tests?: readonly string[] }} Mutation
 *   tests: below test/, in place of those that noticed other changes of the file, by docs/reference/mutants.md
 * @typedef {Readonly<Record<string, readonly Mutation[]>>} Mutations  by file, of scripts below lua/, of services below src/
 */

/** @type {Mutations} */
export const MUTATIONS = together([
  OPERATIONS,
  SETTLEMENTS,
  EXPIRY,
  ADMISSION,
  BUDGETS,
  JOURNAL,
  LIMITS,
  WAITING,
  WINDOWS,
  TEMPLATES,
  REFUNDS,
  CREDITS,
  RUNS,
  PASSES,
  EVERYWHERE,
  OVERTAKEN,
  BOUNDS,
  CHECKLISTS,
]);

/**
 * Lists may have mutations of one file in several places.
 * @param {readonly Mutations[]} lists
 */
function together(lists) {
  /** @type {Record<string, Mutation[]>} */
  const all = {};
  for (const [file, mutations] of lists.flatMap((list) => Object.entries(list))) {
    (all[file] ??= []).push(...mutations);
  }
  return all;
}
