// What tests import as @jest/globals; see hooks.mjs. Each test file has its own copy of this module, with the
// functions that jest made for it.
import { globalsOfTest } from './runtime.mjs';

export const {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  fdescribe,
  fit,
  it,
  jest,
  test,
  xdescribe,
  xit,
  xtest,
} = globalsOfTest();
