export { DemoError } from './api.js';
export { runDemo, type DemoOptions, type DemoResult } from './demo.js';
export { nextSteps, type NextStepsOptions } from './next-steps.js';
export { VERIFIED, verifyLedger, type Verified, type VerifyOptions } from './verify.js';
