import { expect } from '@jest/globals';
import { expectRefusal, type Answer } from './holdfast.js';
import { BOUND_MS, timed } from './time-bound.js';

/**
 * The store is in trouble: the response must be a refusal in the protocol's form, with a Retry-After header,
 * and arrive within the bound.
 */
export async function expectUnavailable(call: () => Promise<Answer>): Promise<void> {
  let answer: Answer | undefined;
  const { tookMs, error } = await timed(async () => {
    answer = await call();
  });
  expect(error).toBeUndefined();
  expectRefusal(answer as Answer, 503, 'INTERNAL_ERROR');
  expect((answer as Answer).headers.get('retry-after')).toMatch(/^\d+$/);
  expect(tookMs).toBeLessThan(BOUND_MS);
}
