// The compiled modules of this checkout that the benchmarks call, with the types of their sources.
import { importBuilt } from '../scripts/install.mjs';

export const keyspace = /** @type {typeof import('../src/redis/keyspace.ts')} */ (
  await importBuilt('redis/keyspace.js')
);
export const { groupOf } = /** @type {typeof import('../src/redis/grouped-calls.ts')} */ (
  await importBuilt('redis/grouped-calls.js')
);
export const { LIBRARY } = /** @type {typeof import('../src/redis/script-library.ts')} */ (
  await importBuilt('redis/script-library.js')
);
export const { ScriptRegistry } = /** @type {typeof import('../src/redis/scripts.ts')} */ (
  await importBuilt('redis/scripts.js')
);
export const { subjectText } = /** @type {typeof import('../src/ledger/scopes.ts')} */ (
  await importBuilt('ledger/scopes.js')
);
