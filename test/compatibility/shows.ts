import { expect } from '@jest/globals';
import type { EXTENSION_RULES } from './extension-rules.js';
import type { GOVERNANCE_RULES } from './governance-rules.js';
import type { OPERATIONS } from './operations.js';
import type { RUNTIME_RULES } from './runtime-rules.js';

type Operations = typeof OPERATIONS;
type ServedOperation = {
  [Id in keyof Operations]: Operations[Id] extends { whyNot: string } ? never : Id;
}[keyof Operations];

export type Shown =
  keyof typeof RUNTIME_RULES | keyof typeof EXTENSION_RULES | keyof typeof GOVERNANCE_RULES | ServedOperation;

/**
 * Declares which rules and operations of the protocol the running test shows. It is the first statement of
 * the test, so that every test that runs has declared them. docs/reference/protocol.md is written from these
 * calls; see declarations.ts.
 */
export function shows(...what: readonly Shown[]): void {
  if (expect.getState().currentTestName === undefined) {
    throw new Error(`only a test can show ${what.join(', ')}`);
  }
}
